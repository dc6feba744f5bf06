// How the CPU kernels want blocks packed: what decides how much memory operands take.
#pragma once

#include <cstdint>

#include "plan/inputs/machine.hpp"

namespace spmm::plan {

/// How elements of a block of B lie.
enum class Packing : std::uint8_t {
  rows,      ///< [inner, cols]
  row_pairs  ///< [inner / 2, cols, 2], as dot products of two elements want them
};

/// Packed blocks of both operands.
/// Layout: A [rows, inner] row-major; B as `packing` says. Padding is zero.
struct PackedShape {
  std::uint32_t m = 0;
  std::uint32_t rows = 0;
  std::uint32_t inner = 0;
  std::uint32_t cols = 0;
  Packing packing = Packing::rows;

  [[nodiscard]] constexpr std::uint64_t a_elements() const { return std::uint64_t{rows} * inner; }
  [[nodiscard]] constexpr std::uint64_t b_elements() const { return std::uint64_t{inner} * cols; }
};

/// Blocks that are summed in tiles are not padded, nor are those of the portable kernels. Sides up to 8 are padded to 4
/// or 8, the columns of larger ones to the lanes of a register.
PackedShape packed_shape(Isa isa, std::uint32_t m);

}  // namespace spmm::plan
