#include "plan/out_of_core.hpp"

#include <algorithm>
#include <cmath>

#include "base/records/selector.hpp"
#include "plan/choice.hpp"
#include "plan/times.hpp"

namespace spmm::plan {
namespace {

// Of the memory limit: a range with a table of B's rows, which takes 8 parts at most, so that the least range has 21;
// pieces of operands and of results take the rest.
constexpr std::uint64_t kRangeParts = 29;
constexpr std::uint64_t kLeastRangeParts = 21;
constexpr std::uint64_t kAllParts = 32;

/// Bytes in which operands are sorted: a record of each part fits half of them.
std::uint64_t least_sort_bytes(const Counts& whole) {
  constexpr double kItemBytes = 32;  // a key of 16 bytes at most, twice
  const auto record = static_cast<double>(input_record_bytes(whole.m()));
  const double blocks = std::max(whole.a.num_blocks, whole.b.num_blocks);
  return static_cast<std::uint64_t>(std::sqrt(2 * blocks * (record + kItemBytes) * record));
}

/// Sets ranges and seconds to what is expected if blocks are spread evenly: each range meets as many blocks of B as its
/// blocks of A, at most all, or all in slabs. Values: room = the part of both operands that fits at once.
void expect_ranges(Choice& e, const Counts& whole, const Limits& limits, const Limits& of_range, double room) {
  const double num_a = std::max(1u, whole.a.num_blocks);
  const double num_b = whole.b.num_blocks;
  const double fitting = room * (num_a + num_b);
  const double met = whole.num_pairs / num_a;  // blocks of B that a block of A meets
  double of_range_a = std::max(fitting / (1 + met), fitting - num_b);
  double of_range_b = std::min(num_b, met * of_range_a);
  const double slab_a = fitting / 4;
  const double num_slabs = std::ceil(num_b / (fitting - slab_a));
  const double rows = static_cast<double>(whole.a_rows);
  const double writes = num_slabs * rows * slab_a / num_a * whole.nb();
  if (slab_a > of_range_a && slabs_pay(of_range_b * slab_a / of_range_a, num_b, writes)) {
    of_range_a = slab_a;
    of_range_b = num_b;
    e.num_slabs = static_cast<std::uint32_t>(num_slabs);
  }
  e.num_ranges = static_cast<std::uint32_t>(std::ceil(std::clamp(num_a / of_range_a, 2.0, std::max(2.0, rows))));
  const double num_parts = double(e.num_ranges) * e.num_slabs;
  Counts s = whole;
  s.a = with_blocks(whole.a, num_a / e.num_ranges);
  s.b = with_blocks(whole.b, of_range_b / e.num_slabs);
  s.num_pairs = whole.num_pairs / num_parts;
  s.num_c_blocks = whole.num_c_blocks / e.num_ranges;
  e.predicted_s = sort_seconds(whole, limits) + range_seconds(e, s, of_range) * num_parts + start_seconds(e, limits);
}

}  // namespace

Choice decide_out_of_core(const Counts& whole, const Limits& given) {
  constexpr std::uint64_t kMostSlabs = 1024;
  constexpr std::uint64_t kListShare = 16;  // lists of threads may take 3 of them; the rest is for operands
  // What keep holds of a row of C while the parts of rows are added up.
  const std::uint64_t of_selector = RecordSelector::memory_bytes(
      given.selection, whole.m(), static_cast<std::uint32_t>(std::min<std::uint64_t>(whole.nb(), whole.b.num_blocks)));
  Limits limits = given;
  limits.host_bytes -= std::min(of_selector, limits.host_bytes);
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
  const Choice lists = least_range(limits.host_bytes / kListShare * 3);
  if (lists.is_refused()) of_range.num_threads = 1;
  if (!lists.is_refused() && lists.backend == Backend::cpu) of_range.num_threads = lists.num_threads;
  Choice e = least_range(limits.host_bytes / kAllParts * kLeastRangeParts);
  of_range.backend = e.backend;
  const bool is_empty = whole.a.num_blocks == 0 || whole.b.num_blocks == 0;  // then the other one is only checked
  if (is_empty && e.refusal.lacks_memory()) e.refusal = {};
  const bool can_sort = least_sort_bytes(whole) <= limits.host_bytes / 4 * 3;  // which are for sorting
  if (!e.is_refused() && !can_sort) e.refusal = host_memory_refusal(0);
  if (e.is_refused()) return e;

  const Refusal at_once = decide_at_once(whole, of_range).refusal;
  const std::uint64_t have =
      at_once.kind == Refusal::Kind::device_memory ? of_range.device_bytes() : of_range.host_bytes;
  const double room = static_cast<double>(have) / static_cast<double>(std::max(have, at_once.need_bytes));
  expect_ranges(e, whole, limits, of_range, room);
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
