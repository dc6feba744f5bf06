// How the CPU kernels want blocks packed: what decides how much memory operands take.
#pragma once

#include <cstdint>
#include <limits>

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

/// Pairs of a row per block column from which row-merge visits all columns (cpu/rows/accumulator.hpp); infinite where
/// it never does.
/// Source: even products of 2,048 block columns, one thread of a Xeon: with 1, 2 and 4 pairs a column sums take, over
/// ordered pairs, 1.0, 0.89 and 0.81 (side 5), 1.17, 1.03 and 0.81 (6), 1.2, 1.1 and 0.92 (7), 1.2, 1.0 and 0.96 (8).
/// Side 4 with 0.4 pairs, two threads of a Zen 5, over products that went straight into records: 0.94 (AVX2 0.95).
constexpr double least_summed_pairs(Isa isa, std::uint32_t m) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr double kLeast[] = {0.4, 1.5, 2.5, 3, 2};  // sides 4 to 8
  return isa == Isa::portable || m < 4 || m > 8 ? kNever : kLeast[m - 4];
}

/// Blocks that are summed in tiles are not padded, nor are those of the portable kernels. Sides up to 8 are padded to 4
/// or 8, the columns of larger ones to the lanes of a register.
PackedShape packed_shape(Isa isa, std::uint32_t m);

}  // namespace spmm::plan
