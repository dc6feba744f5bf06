#include "plan/out_of_core.hpp"

#include <algorithm>
#include <cmath>

#include "plan/decide.hpp"
#include "plan/models/run_models.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint64_t kTableShare = 4;   // of the limit
constexpr std::uint64_t kThreadShare = 4;  // of what a range may take; the rest is left to operands

MatrixHeader with_blocks(MatrixHeader header, double num_blocks) {
  header.num_blocks = static_cast<std::uint32_t>(std::clamp(num_blocks, 0.0, double(header.num_blocks)));
  return header;
}

/// Bytes in which operands are sorted in parts whose tables take a quarter of them.
std::uint64_t least_sort_bytes(const Statistics& whole) {
  constexpr double kTableBytes = 48;  // of a part
  constexpr double kItemBytes = 16;   // a key and a number
  constexpr double kFilled = 0.6;     // of a part, on average
  const double record = 2 * static_cast<double>(input_record_bytes(whole.m())) + kItemBytes;
  const double blocks = std::max(whole.a.num_blocks, whole.b.num_blocks);
  return static_cast<std::uint64_t>(std::sqrt(4 * kTableBytes * blocks * record / kFilled));
}

}  // namespace

Execution decide_range(const MatrixHeader& a, std::uint64_t a_blocks, const MatrixHeader& b, std::uint64_t b_blocks,
                       const Limits& limits) {
  Statistics s =
      expected_statistics(with_blocks(a, static_cast<double>(a_blocks)), with_blocks(b, static_cast<double>(b_blocks)));
  s.are_sorted = true;
  return decide_at_once({s, limits});
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

Execution decide_out_of_core(const Problem& p) {
  const Statistics& whole = p.s;
  const Limits& limits = p.limits;
  Limits of_range = limits;
  of_range.more_devices.clear();
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
  // As if ranges had equal shares of both operands.
  double share = 1;
  const auto blocks = [&](const MatrixHeader& of) { return std::ceil(share * of.num_blocks); };
  const auto fits = [&] {
    return room.fits(static_cast<std::uint64_t>(blocks(whole.a)), static_cast<std::uint64_t>(blocks(whole.b)));
  };
  while (share * std::max(whole.a.num_blocks, whole.b.num_blocks) > 1 && !fits()) share /= 1.1;
  Execution e = decide_range(whole.a, static_cast<std::uint64_t>(blocks(whole.a)), whole.b,
                             static_cast<std::uint64_t>(blocks(whole.b)), of_range);
  if (e.is_refused()) e = least;
  const double rows_met =
      1 - std::exp(-blocks(whole.a) / static_cast<double>(std::max<std::uint64_t>(1, whole.b_rows)));
  const double num_ranges = std::clamp(std::ceil(1 / share), 2.0, 4e9);
  e.num_a_slabs = static_cast<std::uint32_t>(num_ranges);
  e.num_b_slabs = rows_met <= share ? 1 : e.num_a_slabs;
  Statistics s = expected_statistics(with_blocks(whole.a, blocks(whole.a)), with_blocks(whole.b, blocks(whole.b)));
  const double num_products = num_ranges * e.num_b_slabs;
  s.num_pairs = whole.num_pairs / num_products;
  s.likely_c_blocks = s.num_c_blocks = whole.num_c_blocks / num_ranges;
  const double merged =
      e.num_b_slabs == 1 ? 0 : whole.num_c_blocks * static_cast<double>(output_record_bytes(whole.m()));
  e.predicted_s = sort_seconds(p) + num_products * range_seconds(e, {s, of_range}) + merge_seconds(merged) +
                  start_seconds(e, limits);
  e.scratch_bytes = static_cast<std::uint64_t>(input_bytes(whole.a) + input_bytes(whole.b));
  e.range_limits = of_range;
  e.host_limit_bytes = e.host_need_bytes = limits.host_bytes;
  e.expected_pairs = whole.num_pairs;
  e.expected_output_blocks = whole.num_c_blocks;
  e.expected_panels = static_cast<std::uint64_t>(static_cast<double>(e.expected_panels) * num_products);
  return e;
}

}  // namespace spmm::plan
