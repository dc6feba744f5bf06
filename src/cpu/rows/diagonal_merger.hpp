// One thread's work on result rows of operands that lie on a few diagonals: neighbouring rows are summed side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/diagonals.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/simd/diagonal_kernel.hpp"

namespace spmm::cpu {

/// What is multiplied, shared by all threads.
struct DiagonalRowsProduct {
  const PackedOperand& a;  ///< only its rows are left
  const DiagonalProduct& product;
  DiagonalKernel kernel;
};

/// Memory: kDiagonalThreadBytes for each term. Threads: one.
class DiagonalMerger {
 public:
  DiagonalMerger(const DiagonalRowsProduct& rows, const Run& run);

  /// Adds the result blocks of a row to the output: all of them, as no row has so many pairs that it is cut.
  /// Errors: Interrupted, what the output throws.
  void merge(std::uint32_t row, std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end,
             RowUnitOutput& out);

  /// The same for rows [first, last). Returns true. Errors: as merge().
  bool merge_together(std::uint32_t first, std::uint32_t last, std::span<const std::uint64_t> row_pairs,
                      RowUnitOutput& out);

 private:
  void sum(std::uint32_t first_row);
  void write(std::uint32_t row, const std::uint32_t* sums, RowUnitOutput& out);

  const PackedOperand& a_;
  const DiagonalProduct& product_;
  DiagonalKernel kernel_;
  const Run& run_;
  std::vector<DiagonalTerm> terms_;  // those within B, of rows near its first or last one
  std::vector<std::uint32_t> ends_;
  AlignedArray<std::uint32_t> sums_;  // [kDiagonalRows, sums of a row]
  std::vector<std::byte> records_;    // of one row, if a buffer does not hold them all
};

}  // namespace spmm::cpu
