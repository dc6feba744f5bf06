// Products whose operands do not fit the memory limit at once: what a range of one may take, and what is expected of
// all. Pure functions.
#pragma once

#include "plan/execution.hpp"

namespace spmm::plan {

/// Out of core, both operands are sorted into a scratch file, and ranges of the product are computed one after the
/// other, each as a product at once within execution.range_limits, which are those where tables of rows take a quarter.
/// Refused if not even one block of each operand fits. Values: statistics are expected ones; limits name the backend.
Execution decide_out_of_core(const Statistics& whole, const Limits& limits);

/// What is expected of a range that has so many blocks of A and B, sorted by row. Refused if it does not fit.
/// Values: a, b = headers of the whole operands; limits = of a range.
Execution decide_range(const MatrixHeader& a, std::uint64_t a_blocks, const MatrixHeader& b, std::uint64_t b_blocks,
                       const Limits& limits);

/// Whether ranges fit next to all of their threads. The answers are kept, by the blocks of B in steps of 1/12 of a
/// doubling.
class RangeRoom {
 public:
  /// Values: as decide_range().
  RangeRoom(const MatrixHeader& a, const MatrixHeader& b, const Limits& limits) : a_(a), b_(b), limits_(limits) {}

  [[nodiscard]] bool fits(std::uint64_t a_blocks, std::uint64_t b_blocks) { return a_blocks <= most_of_a(b_blocks); }

  /// Blocks of A that fit beside so many of B; 0 if none does.
  [[nodiscard]] std::uint64_t most_of_a(std::uint64_t b_blocks);

 private:
  MatrixHeader a_;
  MatrixHeader b_;
  Limits limits_;
  std::vector<std::optional<std::uint64_t>> most_{};  // [steps of b_blocks], once it is known
};

}  // namespace spmm::plan
