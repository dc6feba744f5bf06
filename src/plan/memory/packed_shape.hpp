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

/// Sides whose blocks of B have no padding columns: they would be 0.4 of the block. Larger ones gain nothing.
constexpr bool has_tight_rows(std::uint32_t m) {
  return m == 9 || m == 10;
}

/// Packed blocks of both operands.
/// Layout: A [rows, inner] row-major; B as `packing` says, to the end of a cache line if its columns are not padded.
/// Padding is zero.
struct PackedShape {
  std::uint32_t m = 0;
  std::uint32_t rows = 0;
  std::uint32_t inner = 0;
  std::uint32_t cols = 0;
  Packing packing = Packing::rows;

  [[nodiscard]] constexpr std::uint64_t a_elements() const { return std::uint64_t{rows} * inner; }
  [[nodiscard]] constexpr std::uint64_t b_elements() const {
    constexpr std::uint64_t kLineElements = 32;
    const std::uint64_t elements = std::uint64_t{inner} * cols;
    const bool fills_lines = packing == Packing::row_pairs && has_tight_rows(m);
    return fills_lines ? (elements + kLineElements - 1) / kLineElements * kLineElements : elements;
  }
};

/// The shape of sides with tight rows.
constexpr PackedShape tight_shape(std::uint32_t m) {
  return {.m = m, .rows = 16, .inner = 10, .cols = m, .packing = Packing::row_pairs};
}

/// Blocks that are summed in tiles are not padded. Sides 4 and 8 have kernels of their own, 5 to 7 are padded to 8
/// (their kernels leave out most of the padding), larger ones are cut into strips of up to 8 rows, and 8 or 16
/// columns.
PackedShape packed_shape(Isa isa, std::uint32_t m);

}  // namespace spmm::plan
