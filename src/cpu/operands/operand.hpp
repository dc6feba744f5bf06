// An operand in memory: non-empty block rows, columns in order, values packed for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/simd/isa.hpp"
#include "cpu/simd/layout.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Memory: nothing is proportional to the number of block rows, which may be 2^32 - 1 for a handful of blocks.
struct PackedOperand {
  AlignedArray<std::uint32_t> rows;     // [num_rows] block rows that hold a block, ascending
  AlignedArray<std::uint32_t> row_ptr;  // [num_rows + 1] first block of each
  AlignedArray<std::uint32_t> cols;     // [num_blocks] ascending within a row; A: see link_rows
  AlignedArray<std::uint16_t> values;   // [num_blocks, elements of the packed shape]
  std::uint32_t seen_bits = 0;          // OR of all elements: none is larger

  [[nodiscard]] std::uint32_t num_rows() const { return static_cast<std::uint32_t>(rows.size()); }
  /// Block rows from the first to the last that hold a block.
  [[nodiscard]] std::uint32_t span() const { return rows.size() == 0 ? 0 : rows[rows.size() - 1] - rows[0] + 1; }
  /// [num_blocks] of A after link_rows(): the row of B that each block meets, as a position in b.rows; or kNoRow.
  [[nodiscard]] const AlignedArray<std::uint32_t>& b_rows() const { return cols; }
};

/// Reads, checks, sorts and packs the records of a source.
/// Errors: FormatError (index out of range, duplicate block), Interrupted, what the source throws.
PackedOperand build_operand(const Source& source, Side side, const PackedShape& shape, Progress& progress,
                            const Run& run);

/// Marks a block of A whose column is an empty block row of B.
inline constexpr std::uint32_t kNoRow = 0xFFFF'FFFFu;

/// Replaces the columns of A by positions in b.rows (kNoRow where B has no such row). Shapes: returns the exact number
/// of pairs of each row [a.num_rows()], those below the diagonal left out if the run keeps a triangle.
AlignedArray<std::uint64_t> link_rows(PackedOperand& a, const PackedOperand& b, std::uint32_t blocks_per_side,
                                      const Run& run);

}  // namespace spmm::cpu
