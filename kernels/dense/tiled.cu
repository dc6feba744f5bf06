// Dense product through tiles in shared memory: one output per thread, or two with the same tile of A.
#include "kernels/dense/arith.cuh"

namespace spmm::kernels {
namespace {

/// Element (row, column) of a row-major matrix, 0 outside of it.
template <class In>
__device__ In element_or_zero(const In* matrix, std::uint64_t rows, std::uint64_t columns, std::uint64_t row,
                              std::uint64_t column) {
  return row < rows && column < columns ? matrix[row * columns + column] : In{0};
}

// Grid: one CTA of Tile x Tile threads per Tile x (Outputs * Tile) elements of C.
// Work: one element per thread and tile of B; a thread loads one element of the tile of A and one of each tile of B,
//       neighbours in memory by neighbouring threads; outside of the matrices it loads zeros.
// Memory: (1 + Outputs) tiles of 32-bit words. Elements of A are broadcast, those of B lie in different banks.
template <class Arith, unsigned Tile, unsigned Outputs>
__global__ void __launch_bounds__(Tile* Tile)
    tiled_product(DenseShape shape, const typename Arith::In* __restrict__ a, const typename Arith::In* __restrict__ b,
                  typename Arith::Out* __restrict__ c) {
  using Staged = typename Arith::Staged;
  __shared__ __align__(16) Staged a_tile[Tile][Tile];
  __shared__ __align__(16) Staged b_tiles[Outputs][Tile][Tile];
  const unsigned x = threadIdx.x;
  const unsigned y = threadIdx.y;
  const CtaCorner corner = cta_corner(shape, Tile, Outputs * Tile);
  const std::uint64_t row = corner.row + y;
  typename Arith::Sum sums[Outputs] = {};
  for (std::uint64_t first = 0; first < shape.inner; first += Tile) {
    a_tile[y][x] = static_cast<Staged>(element_or_zero(a, shape.rows, shape.inner, row, first + x));
#pragma unroll
    for (unsigned o = 0; o < Outputs; ++o) {
      b_tiles[o][y][x] =
          static_cast<Staged>(element_or_zero(b, shape.inner, shape.cols, first + y, corner.column + o * Tile + x));
    }
    __syncthreads();  // the tiles are complete
#pragma unroll
    for (unsigned k = 0; k < Tile; ++k) {
#pragma unroll
      for (unsigned o = 0; o < Outputs; ++o) sums[o] = Arith::add(sums[o], a_tile[y][k], b_tiles[o][k][x]);
    }
    __syncthreads();  // the tiles have been read: they may be refilled
  }
  if (row >= shape.rows) return;
#pragma unroll
  for (unsigned o = 0; o < Outputs; ++o) {
    const std::uint64_t column = corner.column + o * Tile + x;
    if (column < shape.cols) c[row * shape.cols + column] = Arith::finish(sums[o]);
  }
}

template <unsigned Outputs>
DenseLaunch make_launch(DenseType type, DenseShape shape, unsigned tile) {
  return for_dense_type(type, [&]<class Arith>(Arith) {
    return for_tile_width(tile, [&]<class Width>(Width) {
      return DenseLaunch{.function = reinterpret_cast<const void*>(&tiled_product<Arith, Width::value, Outputs>),
                         .num_ctas = num_dense_ctas(shape, tile, Outputs * tile),
                         .threads_x = tile,
                         .threads_y = tile};
    });
  });
}

}  // namespace

DenseLaunch dense_tiled(DenseType type, DenseShape shape, unsigned tile) {
  return make_launch<1>(type, shape, tile);
}

DenseLaunch dense_tiled_two(DenseType type, DenseShape shape, unsigned tile) {
  return make_launch<2>(type, shape, tile);
}

}  // namespace spmm::kernels
