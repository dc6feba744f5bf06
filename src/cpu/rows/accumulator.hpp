// One thread's work on result rows that meet most of their columns: sums of all columns of a range lie in memory (a
// sparse accumulator, SPA), and B is read row by row. No pair is listed or ordered.
#pragma once

#include <cstdint>
#include <span>

#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/rows/arithmetic.hpp"
#include "cpu/simd/accumulator_kernel.hpp"

namespace spmm::cpu {

/// Sums of a range of columns at most.
inline constexpr std::uint64_t kMaxSumsBytes = 128u << 10;

/// Memory: allocates none. Threads: one.
class RowAccumulator {
 public:
  /// Memory that the caller has for other rows.
  struct Space {
    std::span<std::uint32_t> sums;     ///< aligned to a cache line, as many of kMaxSumsBytes as there is room for
    std::span<std::uint32_t> cursors;  ///< for each block of a row of A
  };

  /// Values: kernel may be empty: then no row is accepted.
  RowAccumulator(const PackedOperand& a, const PackedOperand& b, const PackedShape& shape,
                 const RowArithmetic& arithmetic, AccumulatorKernel kernel, std::uint32_t blocks_per_side,
                 const Space& space, const Run& run);

  /// Whether a row of the compressed A with so many pairs is faster here than by ordering its pairs.
  [[nodiscard]] bool takes(std::uint32_t row, std::uint64_t pairs) const;

  /// Adds the result blocks of a row, columns [col_begin, col_end), to the output.
  /// Values: was_used = the space was used for something else since the last row. Errors: Interrupted, what the output
  /// throws.
  void merge(std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end, bool was_used, RowUnitOutput& out);

  /// Whether rows [first, last), which have so many pairs each, are faster together: their part of B leaves the cache
  /// before the next row comes, and almost all C blocks are there, so that places of records can be guessed.
  [[nodiscard]] bool takes_together(std::uint32_t first, std::uint32_t last,
                                    std::span<const std::uint64_t> row_pairs) const;

  /// Adds all result blocks of rows [first, last), by tiles of B that stay in the second-level cache. Values:
  /// takes_together(); out has room for all blocks of the rows. Errors: Interrupted.
  void merge_together(std::uint32_t first, std::uint32_t last, bool was_used, RowUnitOutput& out);

 private:
  [[nodiscard]] bool has_kernel(std::uint32_t row) const;
  void clear_if(bool was_used);
  void start_cursors(std::uint32_t row, std::uint32_t col_begin, std::uint32_t* cursors);
  [[nodiscard]] AccumulatorKernel::Add choose_add(std::uint32_t row) const;
  /// Columns [first, end), of rows of B before b_row_end, which blocks of A from a_begin on meet.
  struct Columns {
    std::uint32_t first;
    std::uint32_t end;
    std::uint32_t a_begin = 0;
    std::uint32_t b_row_end = kNoRow;
  };
  /// A row that is summed with others.
  struct RowState {
    AccumulatorKernel::Add add;
    std::byte* end;          // of its records so far
    std::uint32_t next = 0;  // block of A
  };
  /// Sums of columns. Shapes: sums [columns, sum_elements]. Returns the block of A that comes next.
  std::uint32_t sum_columns(std::uint32_t row, const Columns& columns, std::uint32_t* cursors,
                            AccumulatorKernel::Add add, std::uint32_t* sums);
  /// Some of the rows that are merged together. Shapes: rows [tile_rows_of_a] at most.
  void merge_tiles(std::uint32_t first, std::span<RowState> rows);
  /// Where the blocks of B lie that a block of A meets next, or the first one of B where it meets none.
  /// Values: a_block = any block of A; cursor = the one of the row's block, for blocks of another row none.
  [[nodiscard]] std::uint32_t next_of(std::uint32_t a_block, const std::uint32_t* cursor) const;

  const PackedOperand& a_;
  const PackedOperand& b_;
  const RowArithmetic& arithmetic_;
  const AccumulatorKernel kernel_;
  const Run& run_;
  std::uint32_t blocks_per_side_;
  PackedShape shape_;
  double least_pairs_;                // of a row that is accepted
  std::uint32_t chunk_columns_ = 0;   // whose sums are kept at a time
  std::uint32_t tile_rows_of_a_ = 0;  // that meet a tile of B one after the other
  std::uint32_t tile_columns_ = 0;
  std::uint32_t tile_rows_ = 0;        // of B: with so many columns of them they stay in the second-level cache
  std::span<std::uint32_t> sums_;      // [chunk_columns, sum_elements]; zero between ranges of columns
  std::span<std::uint32_t> all_sums_;  // sums, or those of the rows of a tile
  std::span<std::uint32_t> cursors_;   // next block of B for each block of A in the row
};

}  // namespace spmm::cpu
