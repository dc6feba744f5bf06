// Types and shapes of dense products, and the bytes of dense operands that dense-tiled allocates and the planner counts
// with: pure functions, without CUDA.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spmm::kernels {

/// Elements of A and B -> elements of C.
enum class DenseType : std::uint8_t {
  i32,  ///< int32 -> int32, sums wrap modulo 2^32
  f32,  ///< float -> float
  u16,  ///< uint16 -> uint32, exact sums saturated at 2^32 - 1
};

struct DenseShape {
  std::uint32_t rows = 0;   ///< J
  std::uint32_t inner = 0;  ///< K
  std::uint32_t cols = 0;   ///< L
};

/// What one CTA takes and how many of them fit on a multiprocessor.
struct DenseResources {
  unsigned threads_per_cta = 0;
  unsigned registers_per_thread = 0;
  std::size_t shared_bytes_per_cta = 0;
  unsigned ctas_per_multiprocessor = 0;
  double occupancy = 0;  ///< resident warps over the most a multiprocessor holds
};

/// Elements of rows and columns of dense operands, zeros behind those of the matrix: 16 bytes are read at a time.
constexpr std::uint64_t padded_elements(std::uint64_t elements) {
  constexpr std::uint64_t kAlignment = 8;
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

/// Dense copies of block-sparse operands. Values: nb * m up to kMaxSide.
struct DenseOperands {
  static constexpr std::uint64_t kMaxSide = std::uint64_t{1} << 31;  // beyond it, bytes might not fit 64 bits
  std::uint32_t nb = 0;
  std::uint32_t m = 0;

  [[nodiscard]] constexpr std::uint64_t side() const { return padded_elements(std::uint64_t{nb} * m); }

  /// Bytes of num_rows block rows of A.
  [[nodiscard]] constexpr std::uint64_t a_bytes(std::uint64_t num_rows) const {
    return num_rows * m * side() * sizeof(std::uint16_t);
  }

  /// Bytes of num_columns block columns of B.
  [[nodiscard]] constexpr std::uint64_t b_bytes(std::uint64_t num_columns) const {
    return side() * padded_elements(num_columns * m) * sizeof(std::uint16_t);
  }

  /// Block columns of B that fit: all, or as many as fill whole tiles of the kernel, or fewer; 0 where none do.
  [[nodiscard]] constexpr std::uint32_t columns_in(std::uint64_t free_bytes) const {
    constexpr std::uint64_t kTileColumns = 128;
    if (side() == 0) return 0;
    const std::uint64_t elements = free_bytes / (side() * sizeof(std::uint16_t)) / 8 * 8;
    const std::uint64_t blocks = std::min<std::uint64_t>(elements / m, nb);
    const std::uint64_t step = std::max<std::uint64_t>(1, kTileColumns / m);
    return static_cast<std::uint32_t>(blocks < nb && blocks >= step ? blocks / step * step : blocks);
  }
};

}  // namespace spmm::kernels
