// Element types of the dense kernels, and what their CTAs have in common.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/dense/launch.hpp"
#include "spmm/saturate.hpp"

namespace spmm::kernels {

// In, Out: elements of A and B, of C. Staged: 32 bits in shared memory and registers. Sum: running sum.

struct WrappingI32 {
  using In = std::int32_t;
  using Staged = std::uint32_t;
  using Sum = std::uint32_t;
  using Out = std::int32_t;
  __device__ static Sum add(Sum sum, Staged a, Staged b) { return sum + a * b; }
  __device__ static Out finish(Sum sum) { return static_cast<Out>(sum); }
};

struct SingleF32 {
  using In = float;
  using Staged = float;
  using Sum = float;
  using Out = float;
  __device__ static Sum add(Sum sum, Staged a, Staged b) { return fmaf(a, b, sum); }
  __device__ static Out finish(Sum sum) { return sum; }
};

/// Operands widened once, so that a term is one multiply-add of 32 x 32 + 64 bits.
struct SaturatingU16 {
  using In = std::uint16_t;
  using Staged = std::uint32_t;
  using Sum = std::uint64_t;
  using Out = std::uint32_t;
  __device__ static Sum add(Sum sum, Staged a, Staged b) { return sum + std::uint64_t{a} * b; }
  __device__ static Out finish(Sum sum) { return saturate(sum); }
};

/// Calls body(Arith()) for a type.
template <class Body>
auto for_dense_type(DenseType type, const Body& body) {
  switch (type) {
    case DenseType::i32:
      return body(WrappingI32());
    case DenseType::f32:
      return body(SingleF32());
    case DenseType::u16:
      break;
  }
  return body(SaturatingU16());
}

template <unsigned Tile>
using TileWidth = std::integral_constant<unsigned, Tile>;

/// Calls body(TileWidth<tile>()).
/// Errors: std::invalid_argument for a width that is not compiled.
template <class Body>
auto for_tile_width(unsigned tile, const Body& body) {
  switch (tile) {
    case 8:
      return body(TileWidth<8>());
    case 16:
      return body(TileWidth<16>());
    case 32:
      return body(TileWidth<32>());
    default:
      throw std::invalid_argument("dense tile width: 8, 16 or 32");
  }
}

/// First row and column of C of a CTA.
struct CtaCorner {
  std::uint64_t row;
  std::uint64_t column;
};

/// CTAs walk down this many tiles of rows before the next tile of columns, so that tiles of both operands are shared in
/// L2.
constexpr std::uint32_t kTilesPerStrip = 16;

/// CTAs that cover C. The grid has one dimension: the second one ends at 65,535.
inline unsigned num_dense_ctas(DenseShape shape, unsigned tile_rows, unsigned tile_columns) {
  const std::uint64_t down = (std::uint64_t{shape.rows} + tile_rows - 1) / tile_rows;
  const std::uint64_t across = (std::uint64_t{shape.cols} + tile_columns - 1) / tile_columns;
  if (down * across > 0x7FFF'FFFF) throw std::invalid_argument("dense product: more tiles than a grid has CTAs");
  return static_cast<unsigned>(down * across);
}

/// Tile of this CTA. Rows are counted by shape.rows, columns by shape.cols; every tile is covered once.
__device__ inline CtaCorner cta_corner(DenseShape shape, std::uint32_t tile_rows, std::uint32_t tile_columns) {
  const auto down = static_cast<std::uint32_t>((std::uint64_t{shape.rows} + tile_rows - 1) / tile_rows);
  const auto across = static_cast<std::uint32_t>((std::uint64_t{shape.cols} + tile_columns - 1) / tile_columns);
  const std::uint64_t strip_ctas = std::uint64_t{kTilesPerStrip} * across;
  const auto strip = static_cast<std::uint32_t>(blockIdx.x / strip_ctas);
  const auto within = static_cast<std::uint32_t>(blockIdx.x - strip * strip_ctas);
  const std::uint32_t height = min(kTilesPerStrip, down - strip * kTilesPerStrip);
  return {.row = std::uint64_t{strip * kTilesPerStrip + within % height} * tile_rows,
          .column = std::uint64_t{within / height} * tile_columns};
}

}  // namespace spmm::kernels
