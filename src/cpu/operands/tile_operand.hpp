// B in tiles: blocks side by side, so that a vector of elements meets a vector of sums.
#pragma once

#include <cstdint>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"

namespace spmm::cpu {

struct TileOperand {
  AlignedArray<std::uint32_t> row_ptr;  ///< [num_rows + 1] first tile of each row
  AlignedArray<std::uint32_t> cols;     ///< [num_tiles] tile columns, ascending within a row
  AlignedArray<std::uint16_t> values;   ///< [num_tiles, m, 8]; paired: [num_tiles, 8, 2]; single: [num_tiles, (m + 1) /
                                        ///< 2 pairs of rows, columns, 2]
};

/// Values: m for which plan::sums_in_tiles(). Shapes: returns the first tile of each row of B, and the end
/// [b.num_rows() + 1]. Errors: Interrupted.
AlignedArray<std::uint32_t> count_tiles(const PackedOperand& b, std::uint32_t m, const Run& run);

/// Values: row_ptr = count_tiles(); paired (side 2 only): as TileKernel wants them. Errors: Interrupted.
TileOperand make_tiles(const PackedOperand& b, std::uint32_t m, bool paired, AlignedArray<std::uint32_t> row_ptr,
                       const Run& run);

/// Blocks one by one, for plan::single_block(). Takes all of b but its rows. Values: m = 2 or 3. Errors: Interrupted.
TileOperand make_single_blocks(PackedOperand& b, std::uint32_t m, const Run& run);

}  // namespace spmm::cpu
