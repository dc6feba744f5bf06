// How the CPU kernels want blocks packed: what decides how much memory operands take.
#pragma once

#include <cstdint>

#include "plan/inputs/machine.hpp"

namespace spmm::plan {

/// Packed blocks of both operands.
/// Layout: A [rows, inner] row-major; B [inner / 2, cols, 2] (pairs of rows interleaved, as dot products of two want
/// them) if interleaved, else [inner, cols]. Padding is zero.
struct PackedShape {
  std::uint32_t m = 0;
  std::uint32_t rows = 0;
  std::uint32_t inner = 0;
  std::uint32_t cols = 0;
  bool interleaved = false;

  [[nodiscard]] std::uint64_t a_elements() const { return std::uint64_t{rows} * inner; }
  [[nodiscard]] std::uint64_t b_elements() const { return std::uint64_t{inner} * cols; }
};

/// Blocks that are summed in tiles are not padded. Sides 4 and 8 have kernels of their own, 5 to 7 are padded to 8
/// (kernels of their own leave out most of the padding), larger ones are cut into strips of up to 8 rows, and 8 or 16
/// columns.
PackedShape packed_shape(Isa isa, std::uint32_t m);

}  // namespace spmm::plan
