// Products whose operands do not fit the memory limit at once: what a range of one may take, and what is expected of
// all. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/execution.hpp"

namespace spmm::plan {

/// Out of core, both operands are sorted into a scratch file, and ranges of the product are computed one after the
/// other, each as a product at once within execution.range_limits at least: a table of rows takes the rest. Refused if
/// not even one block of each operand fits. Values: statistics are expected ones; limits name the backend.
Execution decide_out_of_core(const Statistics& whole, const Limits& limits);

/// Bytes of scratch files: the sorted operands, of a square one, and one of them once more while it is sorted.
inline std::uint64_t scratch_bytes(const MatrixHeader& a, const MatrixHeader& b, bool is_square = false) {
  const std::uint64_t record = input_record_bytes(a.m);
  const std::uint64_t sorted = std::uint64_t{b.num_blocks} + (is_square ? 0 : a.num_blocks);
  return std::max<std::uint64_t>(1, (sorted + std::max(a.num_blocks, b.num_blocks)) * record);
}

/// What is expected of a range with so many blocks of A, in so many block rows from the first to the last, and of B.
/// Refused if it does not fit. Values: a, b = headers of the whole operands; limits = of a range.
Execution decide_range(const MatrixHeader& a, std::uint64_t a_blocks, std::uint32_t a_span, const MatrixHeader& b,
                       std::uint64_t b_blocks, const Limits& limits);

/// Blocks of B that fit beside these of A, with fewer threads if need be; 0 if none does. Values: as decide_range().
std::uint64_t most_of_b(const MatrixHeader& a, std::uint64_t a_blocks, std::uint32_t a_span, const MatrixHeader& b,
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
