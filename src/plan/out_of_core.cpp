#include "plan/out_of_core.hpp"

#include <algorithm>
#include <cmath>

#include "base/records/selector.hpp"
#include "plan/choice.hpp"
#include "plan/times.hpp"

namespace spmm::plan {
namespace {

// Of the memory limit: a range with a table of B's rows, which takes 8 parts at most, so that the least range has 19;
// lists and pieces of operands take the rest.
constexpr std::uint64_t kRangeParts = 27;
constexpr std::uint64_t kLeastRangeParts = 19;
constexpr std::uint64_t kAllParts = 32;

/// Bytes in which operands are sorted: a record of each part fits half of them.
std::uint64_t least_sort_bytes(const Counts& whole) {
  constexpr double kItemBytes = 32;  // a key of 16 bytes at most, twice
  const auto record = static_cast<double>(input_record_bytes(whole.m()));
  const double blocks = std::max(whole.a.num_blocks, whole.b.num_blocks);
  return static_cast<std::uint64_t>(std::sqrt(2 * blocks * (record + kItemBytes) * record));
}

/// Sets ranges, slabs and seconds to what is expected if blocks are spread evenly: shares of A, each with what it meets
/// of B, or, if fewer blocks are read in all, equal shares of A and slabs of B. Values: room = the part of both
/// operands that fits at once.
void expect_ranges(Choice& e, const Counts& whole, const Limits& limits, const Limits& of_range, double room) {
  const double num_a = whole.a.num_blocks;
  const double num_b = whole.b.num_blocks;
  const double rows_of_run =  // of B in a table of a quarter of the limit
      std::max(1.0, double(whole.nb()) * sizeof(std::uint32_t) * 4 / static_cast<double>(limits.host_bytes));
  const double met = whole.num_pairs * rows_of_run;
  const double blocks = room * (num_a + num_b);
  double share = blocks / (num_a + met);
  if (share * met > num_b) share = std::max(1 / num_a, (blocks - num_b) / num_a);
  const bool in_slabs = share < room * room;
  if (in_slabs) share = room;
  e.num_ranges = static_cast<std::uint32_t>(std::ceil(std::min(num_a, 1 / std::min(share, 0.5))));
  e.num_slabs = in_slabs ? e.num_ranges : 1;
  const double products = double(e.num_ranges) * e.num_slabs;
  Counts s = whole;
  s.a = with_blocks(whole.a, std::ceil(num_a / e.num_ranges));
  s.b = with_blocks(whole.b, std::ceil(in_slabs ? num_b / e.num_slabs : std::min(num_b, met / e.num_ranges)));
  s.num_pairs = whole.num_pairs / products;
  s.num_c_blocks = whole.num_c_blocks / e.num_ranges;
  const double merged = in_slabs ? whole.num_c_blocks * static_cast<double>(output_record_bytes(whole.m())) : 0;
  e.predicted_s = sort_seconds(whole, limits) + products * range_seconds(e, s, of_range) + merge_seconds(merged) +
                  start_seconds(e, limits);
}

}  // namespace

Choice decide_out_of_core(const Counts& whole, const Limits& given) {
  constexpr std::uint64_t kMostSlabs = 1024;
  constexpr std::uint64_t kListShare = 16;  // lists of threads may take 3 of them; the rest is for operands
  // What keep holds of a row of C while the parts of rows are added up.
  const std::uint64_t of_selector = RecordSelector::memory_bytes(
      given.selection, whole.m(), static_cast<std::uint32_t>(std::min<std::uint64_t>(whole.nb(), whole.b.num_blocks)));
  Limits limits = given;
  limits.host_bytes -= std::min(of_selector, limits.host_bytes / 2);
  Limits of_range = limits;
  if (of_range.gpus.size() > 1) of_range.gpus.resize(1);
  of_range.num_threads = std::min(limits.num_threads, std::max(1u, limits.num_cores));
  const std::uint64_t least_b = std::max<std::uint64_t>(1, whole.b.num_blocks / kMostSlabs);
  const std::uint64_t least_a =
      std::max<std::uint64_t>(whole.a.num_blocks / kMostSlabs, least_a_blocks(whole.a, least_b));
  const auto least_range = [&](std::uint64_t host_bytes) {
    of_range.host_bytes = host_bytes;
    return decide_at_once(expected_counts(with_blocks(whole.a, double(least_a)), with_blocks(whole.b, double(least_b))),
                          of_range);
  };
  Choice least = least_range(limits.host_bytes / kListShare * 3);
  if (least.is_refused()) of_range.num_threads = 1;
  if (!least.is_refused() && least.backend == Backend::cpu) of_range.num_threads = least.num_threads;
  least = least_range(limits.host_bytes / kAllParts * kLeastRangeParts);
  of_range.backend = least.backend;
  const bool is_empty = whole.a.num_blocks == 0 || whole.b.num_blocks == 0;  // then the other one is only checked
  if (is_empty && least.refusal.lacks_memory()) least.refusal = {};
  const std::uint64_t sort_limit = least_sort_bytes(whole) / 3 * 4 + 4;  // three quarters are for sorting
  if (least.refusal.kind == Refusal::Kind::host_memory) {
    const std::uint64_t of_range_bytes = least.refusal.need_bytes / kLeastRangeParts * kAllParts + 2 * kAllParts;
    least.refusal.need_bytes = std::max(of_range_bytes, sort_limit);
  } else if (!least.is_refused() && limits.host_bytes < sort_limit) {
    least.refusal = host_memory_refusal(sort_limit);
  }
  if (limits.host_bytes < of_selector)
    least.refusal = host_memory_refusal(std::max(of_selector, least.refusal.need_bytes));
  if (least.refusal.kind == Refusal::Kind::host_memory) least.refusal.need_bytes += of_selector;
  if (least.is_refused()) return least;

  Choice e = least;
  if (is_empty) {
    e.num_ranges = e.num_slabs = 1;
    e.predicted_s = sort_seconds(whole, limits) + start_seconds(e, limits);
  } else {
    const Refusal at_once = decide_at_once(whole, of_range).refusal;
    const std::uint64_t have =
        at_once.kind == Refusal::Kind::device_memory ? of_range.device_bytes() : of_range.host_bytes;
    const double room = static_cast<double>(have) / static_cast<double>(std::max(have, at_once.need_bytes));
    expect_ranges(e, whole, limits, of_range, room);
  }
  e.scratch_bytes = scratch_bytes(whole.a, whole.b);
  e.limits = of_range;
  e.limits.host_bytes = limits.host_bytes / kAllParts * kRangeParts;
  e.host_limit_bytes = e.host_need_bytes = given.host_bytes;
  const Counts kept = expected_of_selection(whole, limits.selection, limits.rows);
  e.expected_pairs = kept.num_pairs;
  e.expected_output_blocks = kept.num_c_blocks;
  e.sampled = whole.sampled;
  return e;
}

}  // namespace spmm::plan
