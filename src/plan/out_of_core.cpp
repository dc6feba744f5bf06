#include "plan/out_of_core.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/decide.hpp"
#include "plan/times.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint64_t kTableShare = 4;  // of the limit
constexpr double kRunBytes = 9;           // of a run of rows in a table
constexpr double kFindS = 0.4e-6;         // for the rows of B that a block of A meets, while ranges are cut;
constexpr double kReadS = 0.6e-6;         // to read a run: m = 1, n = 1e6, 2e6 blocks, 0.95 times the operands, a Zen 5
constexpr std::uint64_t kThreadShare = 4;  // of what a range may take; the rest is left to operands

MatrixHeader with_blocks(MatrixHeader header, double num_blocks) {
  header.num_blocks = static_cast<std::uint32_t>(std::clamp(num_blocks, 0.0, double(header.num_blocks)));
  return header;
}

/// Bytes in which operands are sorted in parts whose tables take a quarter of them.
std::uint64_t least_sort_bytes(const Statistics& whole) {
  constexpr double kTableBytes = 48;  // of a part
  constexpr double kItemBytes = 32;   // a key of 16 bytes at most, twice
  constexpr double kFilled = 0.6;     // of a part, on average
  const double record = 2 * static_cast<double>(input_record_bytes(whole.m())) + kItemBytes;
  const double blocks = std::max(whole.a.num_blocks, whole.b.num_blocks);
  return static_cast<std::uint64_t>(std::sqrt(4 * kTableBytes * blocks * record / kFilled));
}

}  // namespace

Execution decide_range(const MatrixHeader& a, std::uint64_t a_blocks, const MatrixHeader& b, std::uint64_t b_blocks,
                       const Limits& limits) {
  const Statistics s =
      expected_statistics(with_blocks(a, static_cast<double>(a_blocks)), with_blocks(b, static_cast<double>(b_blocks)));
  return decide_at_once(s, limits);
}

std::uint64_t RangeRoom::most_of_a(std::uint64_t b_blocks) {
  constexpr double kStepsPerDoubling = 12;
  const auto step =
      b_blocks <= 1 ? 0
                    : static_cast<std::size_t>(std::ceil(std::log2(static_cast<double>(b_blocks)) * kStepsPerDoubling));
  if (step >= most_.size()) most_.resize(step + 1);
  if (most_[step]) return *most_[step];
  const double bound = std::min<double>(std::ceil(std::exp2(double(step) / kStepsPerDoubling)), b_.num_blocks);
  const auto fits_beside = [&](std::uint64_t a_blocks) {
    const Execution e = decide_range(a_, a_blocks, b_, static_cast<std::uint64_t>(bound), limits_);
    return !e.is_refused() && (e.backend == Backend::cuda || e.num_threads >= limits_.num_threads);
  };
  std::uint64_t most = 0;
  if (fits_beside(a_.num_blocks)) {
    most = a_.num_blocks;
  } else if (fits_beside(1)) {
    most = 1;
    for (std::uint64_t less = 1, more = a_.num_blocks; more - less > less / 32 + 1;) {
      const std::uint64_t middle = less + (more - less) / 2;
      (fits_beside(middle) ? less : more) = middle;
      most = less;
    }
  }
  most_[step] = most;
  return most;
}

Execution decide_out_of_core(const Statistics& whole, const Limits& limits) {
  Limits of_range = limits;
  if (of_range.num_gpus() > 1) of_range.gpus.resize(1);
  of_range.host_bytes -= limits.host_bytes / kTableShare;
  of_range.num_threads = std::min(limits.num_threads, std::max(1u, limits.num_cores));
  Limits of_threads = of_range;
  of_threads.host_bytes /= kThreadShare;
  Execution least = decide_range(whole.a, 1, whole.b, 1, of_threads);
  const bool is_empty = whole.a.num_blocks == 0 || whole.b.num_blocks == 0;  // then the other one is only checked
  if (is_empty && least.refusal.lacks_memory()) least.refusal = {};
  const bool has_room = !least.is_refused();
  if (!has_room) {
    of_range.num_threads = 1;
    least = decide_range(whole.a, 1, whole.b, 1, of_range);
  }
  const std::uint64_t sort_bytes = least_sort_bytes(whole);
  if (!least.is_refused() && sort_bytes > of_range.host_bytes) least.refusal = host_memory_refusal(sort_bytes);
  if (least.is_refused()) {
    if (least.refusal.kind == Refusal::Kind::host_memory) {
      const std::uint64_t need = std::max(least.refusal.need_bytes, sort_bytes);
      least.refusal.need_bytes = need + need / (kTableShare - 1) + 1;
    }
    return least;
  }
  if (least.backend == Backend::cpu) of_range.num_threads = least.num_threads;
  // A coarse table reads rows in vain. It gets half of the limit if threads need little.
  if (has_room) of_range.host_bytes /= 2;
  of_range.backend = least.backend;
  RangeRoom room(whole.a, whole.b, of_range);
  // Ranges of rows of A with all rows of B that they meet, found through a table; or equal shares of both operands.
  const double num_runs = std::clamp(static_cast<double>(limits.host_bytes / kTableShare) / kRunBytes, 1.0,
                                     std::max(1.0, static_cast<double>(whole.b_rows)));
  const auto share_of_met = [&](double share) { return 1 - std::exp(-share * whole.a.num_blocks / num_runs); };
  const auto equal_share = [](double share) { return share; };
  const auto blocks = [](const MatrixHeader& of, double share) {
    return static_cast<std::uint64_t>(std::ceil(share * of.num_blocks));
  };
  Execution e = least;
  e.predicted_s = std::numeric_limits<double>::infinity();
  const auto consider = [&](const auto& share_of_b, bool in_slabs) {
    double share = 1;
    const auto fits = [&] { return room.fits(blocks(whole.a, share), blocks(whole.b, share_of_b(share))); };
    while (share * std::max(whole.a.num_blocks, whole.b.num_blocks) > 1 && !fits()) share /= 1.1;
    if (!in_slabs && !fits()) return;
    const MatrixHeader a = with_blocks(whole.a, static_cast<double>(blocks(whole.a, share)));
    const MatrixHeader b = with_blocks(whole.b, static_cast<double>(blocks(whole.b, share_of_b(share))));
    Execution one = decide_range(whole.a, a.num_blocks, whole.b, b.num_blocks, of_range);
    if (one.is_refused()) one = least;
    const double num_ranges = std::clamp(std::ceil(1 / share), 2.0, 4e9);
    one.num_a_slabs = static_cast<std::uint32_t>(num_ranges);
    one.num_b_slabs = in_slabs ? one.num_a_slabs : 1;
    const double num_products = num_ranges * one.num_b_slabs;
    Statistics s = expected_statistics(a, b);
    s.num_pairs = whole.num_pairs / num_products;
    s.num_c_blocks = whole.num_c_blocks / num_products;
    const double merged = in_slabs ? whole.num_c_blocks * static_cast<double>(output_record_bytes(whole.m())) : 0;
    const double found =
        in_slabs ? 0 : kFindS * whole.a.num_blocks + kReadS * num_ranges * num_runs * share_of_b(share);
    one.predicted_s = sort_seconds(whole, limits) + found + num_products * range_seconds(one, s, of_range) +
                      merge_seconds(merged) + start_seconds(one, limits);
    one.expected_panels = static_cast<std::uint64_t>(static_cast<double>(one.expected_panels) * num_products);
    if (!(one.predicted_s >= e.predicted_s)) e = std::move(one);
  };
  consider(share_of_met, false);
  consider(equal_share, true);
  // Not 0, which stands for a product at once, also if both operands are empty.
  e.scratch_bytes = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(input_bytes(whole.a) + input_bytes(whole.b)));
  e.range_limits = of_range;
  e.host_limit_bytes = e.host_need_bytes = limits.host_bytes;
  e.expected_pairs = whole.num_pairs;
  e.expected_output_blocks = whole.num_c_blocks;
  return e;
}

}  // namespace spmm::plan
