// Memory of the dense kernels: byte planes, panels and groups of block columns. Pure functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "plan/planner.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// Byte planes that elements need: 1 below 256, else 2.
constexpr std::uint32_t num_byte_planes(std::uint32_t max_element) {
  return max_element < 256 ? 1 : 2;
}

/// Bits of the low byte where the high byte takes the upper eight of those that elements have.
constexpr std::uint32_t low_plane_bits(std::uint32_t max_element) {
  const auto bits = static_cast<std::uint32_t>(std::bit_width(max_element));
  return bits <= 8 ? 0 : bits - 8;
}

/// Bytes of one plane row of nb * m elements.
constexpr std::uint64_t plane_stride_bytes(std::uint32_t nb, std::uint32_t m) {
  return (std::uint64_t{nb} * m + 127) / 128 * 128;
}

/// Bytes of the planes of num_rows block rows (A) or columns (B).
constexpr std::uint64_t plane_bytes(std::uint32_t nb, std::uint32_t num_rows, std::uint32_t m,
                                    std::uint32_t num_planes) {
  const std::uint64_t rows = std::uint64_t{num_rows} * m;
  return (rows + 7) / 8 * 8 * num_planes * plane_stride_bytes(nb, m);
}

/// C blocks of a panel that spans whole block rows, if half of the free memory goes to panels and the rest to operands.
/// 0 where not even one block row fits.
inline std::uint64_t dense_panel_blocks(std::uint32_t nb, std::uint32_t m, std::uint64_t max_c_blocks,
                                        std::uint64_t free_bytes) {
  const std::uint64_t per_c_block = 2 * output_record_bytes(m) + c_block_bytes(m);
  return std::min(max_c_blocks, free_bytes / 2 / per_c_block) / nb * nb;
}

/// Block columns of B whose planes fit: all of them, or a multiple of 64, so that C blocks of the kernel are full; 0
/// where none do.
inline std::uint32_t dense_group_columns(std::uint32_t nb, std::uint32_t m, std::uint32_t num_planes,
                                         std::uint64_t free_bytes) {
  constexpr std::uint32_t kStep = 64;
  constexpr std::uint64_t kLargestSide = std::uint64_t{1} << 31;  // beyond it bytes do not fit 64 bits
  if (std::uint64_t{nb} * m > kLargestSide) return 0;
  if (plane_bytes(nb, nb, m, num_planes) <= free_bytes) return nb;
  return static_cast<std::uint32_t>(free_bytes / plane_bytes(nb, kStep, m, num_planes)) * kStep;
}

}  // namespace spmm::plan
