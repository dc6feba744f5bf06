// Products whose operands do not fit the memory limit at once: what a range of one may take, and what is expected of
// all. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/execution.hpp"

namespace spmm::plan {

/// Out of core, both operands are sorted into a scratch file, and ranges of the product are computed one after the
/// other, each as a product at once within execution.range_limits, less a table of B's rows. Refused if less than a
/// 1,024th of both operands fits: there would be too many ranges. Values: statistics are expected ones; limits name the
/// backend.
Execution decide_out_of_core(const Statistics& whole, const Limits& limits);

/// Bytes of scratch files: the sorted operands, of a square one, and one of them once more while it is sorted.
inline std::uint64_t scratch_bytes(const MatrixHeader& a, const MatrixHeader& b, bool is_square = false) {
  const std::uint64_t record = input_record_bytes(a.m);
  const std::uint64_t sorted = std::uint64_t{b.num_blocks} + (is_square ? 0 : a.num_blocks);
  return std::max<std::uint64_t>(1, (sorted + std::max(a.num_blocks, b.num_blocks)) * record);
}

/// What is expected of a range with so many blocks of A, in a_span block rows from the first to the last, and of B.
/// Refused if it does not fit. Values: a, b = headers of the whole operands; limits = of a range.
Execution decide_range(const MatrixHeader& a, std::uint64_t a_blocks, const MatrixHeader& b, std::uint64_t b_blocks,
                       const Limits& limits, std::uint32_t a_span);

/// Whether a decision needs no fewer threads than its limits allow.
bool has_all_threads(const Execution& execution, const Limits& limits);

/// Seconds of a range. Values: as above; pairs and C blocks of the range.
double range_seconds(const MatrixHeader& a, std::uint64_t a_blocks, const MatrixHeader& b, std::uint64_t b_blocks,
                     const Limits& limits, double num_pairs, double num_c_blocks);

/// Blocks of A for which there must be room beside a slab of B.
inline std::uint64_t least_a_blocks(const MatrixHeader& a, std::uint64_t slab_blocks) {
  return std::min<std::uint64_t>(a.num_blocks, slab_blocks / 3 + 1);
}

/// The largest number up to `most` that fits, less a 32nd at most; 0 if 1 does not.
template <class Fits>
std::uint64_t largest_that_fits(std::uint64_t most, const Fits& fits) {
  if (most == 0 || fits(most)) return most;
  std::uint64_t low = 0;
  for (std::uint64_t high = most; high - low > low / 32 + 1;) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// The least number that fits above one that does not.
template <class Fits>
std::uint64_t least_that_fits(std::uint64_t low, const Fits& fits) {
  std::uint64_t high = 2 * low + 1;
  for (; !fits(high) && high < std::uint64_t{1} << 60; high *= 2) low = high;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace spmm::plan
