#include "plan/out_of_core.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/decide.hpp"
#include "plan/times.hpp"

namespace spmm::plan {
namespace {

MatrixHeader with_blocks(MatrixHeader header, double num_blocks) {
  header.num_blocks = static_cast<std::uint32_t>(std::clamp(num_blocks, 0.0, double(header.num_blocks)));
  return header;
}

/// Bytes in which operands are sorted: a record of each part fits half of them.
std::uint64_t least_sort_bytes(const Statistics& whole) {
  constexpr double kItemBytes = 32;  // a key of 16 bytes at most, twice
  const auto record = static_cast<double>(input_record_bytes(whole.m()));
  const double blocks = std::max(whole.a.num_blocks, whole.b.num_blocks);
  return static_cast<std::uint64_t>(std::sqrt(2 * blocks * (record + kItemBytes) * record));
}

bool has_all_threads(const Execution& e, const Limits& limits) {
  return !e.is_refused() && (e.backend == Backend::cuda || e.num_threads >= limits.num_threads);
}

}  // namespace

Execution decide_range(const MatrixHeader& a, std::uint64_t a_blocks, std::uint32_t a_span, const MatrixHeader& b,
                       std::uint64_t b_blocks, const Limits& limits) {
  Statistics s =
      expected_statistics(with_blocks(a, static_cast<double>(a_blocks)), with_blocks(b, static_cast<double>(b_blocks)));
  s.a_span = a_span;
  return decide_at_once(s, limits);
}

std::uint64_t most_of_b(const MatrixHeader& a, std::uint64_t a_blocks, std::uint32_t a_span, const MatrixHeader& b,
                        const Limits& limits) {
  for (const bool wants_threads : {true, false}) {
    for (double blocks = b.num_blocks; blocks >= 1; blocks /= 1.05) {
      const Execution e = decide_range(a, a_blocks, a_span, b, static_cast<std::uint64_t>(blocks), limits);
      if (wants_threads ? has_all_threads(e, limits) : !e.is_refused()) return static_cast<std::uint64_t>(blocks);
    }
  }
  return 0;
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
    const auto b_most = static_cast<std::uint64_t>(bound);
    return has_all_threads(decide_range(a_, a_blocks, a_.blocks_per_side(), b_, b_most, limits_), limits_);
  };
  std::uint64_t most = 0;
  if (fits_beside(a_.num_blocks)) {
    most = a_.num_blocks;
  } else if (fits_beside(1)) {
    most = 1;
    for (std::uint64_t more = a_.num_blocks; more - most > most / 32 + 1;) {
      const std::uint64_t middle = most + (more - most) / 2;
      (fits_beside(middle) ? most : more) = middle;
    }
  }
  most_[step] = most;
  return most;
}

Execution decide_out_of_core(const Statistics& whole, const Limits& limits) {
  // Half of the limit for ranges, the rest for a table, as a coarse one reads rows in vain; three quarters and one
  // thread if the lists of all threads leave little of that to operands.
  Limits of_range = limits;
  if (of_range.gpus.size() > 1) of_range.gpus.resize(1);
  of_range.num_threads = std::min(limits.num_threads, std::max(1u, limits.num_cores));
  of_range.host_bytes = limits.host_bytes / 16 * 3;
  const auto least_range = [&] { return decide_range(whole.a, 1, 1, whole.b, 1, of_range); };
  Execution least = least_range();
  const bool is_empty = whole.a.num_blocks == 0 || whole.b.num_blocks == 0;  // then the other one is only checked
  if (is_empty && least.refusal.lacks_memory()) least.refusal = {};
  const bool has_room = !least.is_refused();
  of_range.host_bytes = has_room ? limits.host_bytes / 2 : limits.host_bytes - limits.host_bytes / 4;
  if (!has_room) {
    of_range.num_threads = 1;
    least = least_range();
  }
  const std::uint64_t sort_bytes = least_sort_bytes(whole);
  if (!least.is_refused() && sort_bytes > limits.host_bytes - limits.host_bytes / 4) {
    least.refusal = host_memory_refusal(sort_bytes);
  }
  if (least.is_refused()) {
    if (least.refusal.kind == Refusal::Kind::host_memory) {
      const std::uint64_t need = std::max(least.refusal.need_bytes, sort_bytes);
      least.refusal.need_bytes = need + need / 3 + 1;
    }
    return least;
  }
  if (least.backend == Backend::cpu) of_range.num_threads = least.num_threads;
  of_range.backend = least.backend;

  // Ranges of rows of A with the rows of B that they have pairs with, or equal shares of both operands.
  RangeRoom room(whole.a, whole.b, of_range);
  const double rows_of_run =  // of B in a table of half of the limit
      std::max(1.0, double(whole.nb()) * sizeof(std::uint32_t) * 2 / static_cast<double>(limits.host_bytes));
  const double pairs_share = whole.num_pairs * rows_of_run / std::max(1u, whole.b.num_blocks);
  Execution e = least;
  e.predicted_s = std::numeric_limits<double>::infinity();
  for (const bool in_slabs : {false, true}) {
    double share = 1;  // of A
    const auto blocks_of_b = [&] {
      return std::ceil(std::min(1.0, in_slabs ? share : share * pairs_share) * whole.b.num_blocks);
    };
    const auto fits = [&] {
      return room.fits(static_cast<std::uint64_t>(std::ceil(share * whole.a.num_blocks)),
                       static_cast<std::uint64_t>(blocks_of_b()));
    };
    while (share * std::max(whole.a.num_blocks, whole.b.num_blocks) > 1 && !fits()) share /= 1.1;
    if (!in_slabs && !fits()) continue;
    const MatrixHeader a = with_blocks(whole.a, std::ceil(share * whole.a.num_blocks));
    const MatrixHeader b = with_blocks(whole.b, blocks_of_b());
    Execution one = decide_range(whole.a, a.num_blocks, whole.nb(), whole.b, b.num_blocks, of_range);
    if (one.is_refused()) one = least;
    one.num_a_slabs = static_cast<std::uint32_t>(std::clamp(std::ceil(1 / share), 2.0, 4e9));
    one.num_b_slabs = in_slabs ? one.num_a_slabs : 1;
    const double num_products = double(one.num_a_slabs) * one.num_b_slabs;
    Statistics s = expected_statistics(a, b);
    s.num_pairs = whole.num_pairs / num_products;
    s.num_c_blocks = whole.num_c_blocks / num_products;
    const double merged = in_slabs ? whole.num_c_blocks * static_cast<double>(output_record_bytes(whole.m())) : 0;
    one.predicted_s = sort_seconds(whole, limits) + num_products * range_seconds(one, s, of_range) +
                      merge_seconds(merged) + start_seconds(one, limits);
    one.expected_panels = static_cast<std::uint64_t>(static_cast<double>(one.expected_panels) * num_products);
    if (!(one.predicted_s >= e.predicted_s)) e = std::move(one);
  }
  e.scratch_bytes = scratch_bytes(whole.a, whole.b);
  e.range_limits = of_range;
  e.host_limit_bytes = e.host_need_bytes = limits.host_bytes;
  e.expected_pairs = whole.num_pairs;
  e.expected_output_blocks = whole.num_c_blocks;
  return e;
}

}  // namespace spmm::plan
