// One thread's work on result rows that meet most of their columns: sums of all columns of a range lie in memory (a
// sparse accumulator, SPA), and B is read row by row. No pair is listed or ordered.
#pragma once

#include <cstdint>
#include <span>

#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/rows/arithmetic.hpp"

namespace spmm::cpu {

/// Memory: sizes.sums. Threads: one.
class RowAccumulator {
 public:
  /// Shapes: cursors, for each block of a row of A; of longer rows none is accepted.
  RowAccumulator(const RowProduct& product, const MergeSizes& sizes, std::span<std::uint32_t> cursors, const Run& run);

  /// Whether a row of the compressed A with so many pairs is faster here than by ordering its pairs.
  [[nodiscard]] bool takes(std::uint32_t row, std::uint64_t pairs) const;

  /// Adds the result blocks of a row, columns [col_begin, col_end), to the output.
  /// Errors: Interrupted, what the output throws.
  void merge(std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end, RecordWriter& out);

 private:
  void start_cursors(std::uint32_t row, std::uint32_t col_begin);
  [[nodiscard]] AccumulatorKernel::Add choose_add(std::uint32_t row) const;
  /// Adds the products of columns [first, end) to sums_, and moves the cursors behind them.
  void sum_columns(std::uint32_t row, std::uint32_t first, std::uint32_t end, AccumulatorKernel::Add add);
  /// Where the blocks of B lie that a block of A meets next, or the first one of B where it meets none.
  /// Values: a_block = any block of A; cursor = the one of the row's block, for blocks of another row none.
  [[nodiscard]] std::uint32_t next_of(std::uint32_t a_block, const std::uint32_t* cursor) const;

  const PackedOperand& a_;
  const PackedOperand& b_;
  const PackedShape shape_;
  const RowArithmetic& arithmetic_;
  const AccumulatorKernel kernel_;
  const std::uint32_t blocks_per_side_;
  const Run& run_;
  std::uint32_t chunk_columns_ = 0;   // whose sums are kept at a time
  AlignedArray<std::uint32_t> sums_;  // [chunk_columns, sum_elements]; zero between ranges of columns
  std::span<std::uint32_t> cursors_;  // next block of B for each block of A in the row
};

}  // namespace spmm::cpu
