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
  AlignedArray<std::uint16_t> values;   ///< [num_tiles, m, 8]; paired: the first two rows [8, 2]
};

/// Values: m for which sums_in_tiles(); paired (sides 2 and 3): as TileKernel wants them. Errors: Interrupted.
TileOperand make_tiles(const PackedOperand& b, std::uint32_t m, bool paired, const Run& run);

}  // namespace spmm::cpu
