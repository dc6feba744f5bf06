// Memory of the dense CUDA kernels: byte planes or dense copies, panels of whole block rows, groups of block columns.
// The only place where their sizes are computed; the kernels' hosts allocate what these say. Pure functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/tuning.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// Byte planes that elements need: 1 below 256, else 2.
constexpr std::uint32_t num_byte_planes(std::uint32_t max_element) {
  return max_element < 256 ? 1 : 2;
}

/// Byte planes of dense-tensor where memory allows for them: 3, the third of sums of the other two, saves one of four
/// products of bytes.
constexpr std::uint32_t num_dense_planes(std::uint32_t max_element) {
  const std::uint32_t needed = num_byte_planes(max_element);
  return needed == 2 && max_element <= kernels::kMaxSummedElement ? 3 : needed;
}

/// Products of bytes that a multiply-add takes.
constexpr std::uint32_t num_byte_products(std::uint32_t num_planes) {
  return num_planes == 2 ? 4 : num_planes;
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

/// Rows and columns of a dense operand are counted in 32 bits; beyond this side its bytes might not fit 64.
inline constexpr std::uint64_t kLargestDenseSide = std::uint64_t{1} << 31;

/// C blocks of a panel that spans whole block rows, if half of the free memory goes to panels and the rest to operands.
/// 0 where not even one block row fits.
constexpr std::uint64_t dense_panel_blocks(std::uint32_t nb, std::uint64_t c_block_bytes, std::uint64_t max_c_blocks,
                                           std::uint64_t free_bytes) {
  return nb == 0 ? 0 : std::min(max_c_blocks, free_bytes / 2 / c_block_bytes) / nb * nb;
}

/// Block columns of B whose planes fit: all of them, or a multiple of 64, so that C blocks of the kernel are full; 0
/// where none do.
constexpr std::uint32_t plane_group_columns(std::uint32_t nb, std::uint32_t m, std::uint32_t num_planes,
                                            std::uint64_t free_bytes) {
  constexpr std::uint32_t kStep = 64;
  if (std::uint64_t{nb} * m > kLargestDenseSide) return 0;
  if (plane_bytes(nb, nb, m, num_planes) <= free_bytes) return nb;
  return static_cast<std::uint32_t>(free_bytes / plane_bytes(nb, kStep, m, num_planes)) * kStep;
}

/// Elements of a row of a dense u16 operand: 16 bytes are read at a time.
constexpr std::uint64_t padded_elements(std::uint64_t elements) {
  constexpr std::uint64_t kAlignment = 8;
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes of num_rows block rows of A as dense u16.
constexpr std::uint64_t dense_a_bytes(std::uint32_t nb, std::uint64_t num_rows, std::uint32_t m) {
  return num_rows * m * padded_elements(std::uint64_t{nb} * m) * sizeof(std::uint16_t);
}

/// Bytes of num_columns block columns of B as dense u16.
constexpr std::uint64_t dense_b_bytes(std::uint32_t nb, std::uint64_t num_columns, std::uint32_t m) {
  return padded_elements(std::uint64_t{nb} * m) * padded_elements(num_columns * m) * sizeof(std::uint16_t);
}

/// Block columns of B that fit as a dense matrix: all, or as many as fill whole C blocks of the kernel, or fewer; 0
/// where none do.
constexpr std::uint32_t element_group_columns(std::uint32_t nb, std::uint32_t m, std::uint64_t free_bytes) {
  constexpr std::uint64_t kTileColumns = 128;
  const std::uint64_t side = padded_elements(std::uint64_t{nb} * m);
  if (side > kLargestDenseSide || side == 0) return 0;
  const std::uint64_t columns = free_bytes / (side * sizeof(std::uint16_t)) / 8 * 8;
  const std::uint64_t blocks = std::min<std::uint64_t>(columns / m, nb);
  const std::uint64_t step = std::max<std::uint64_t>(1, kTileColumns / m);
  if (blocks < nb && blocks >= step) return static_cast<std::uint32_t>(blocks / step * step);
  return static_cast<std::uint32_t>(blocks);
}

}  // namespace spmm::plan
