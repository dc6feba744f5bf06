// Dense product straight from global memory: the baseline of the tiled kernels.
#include "kernels/dense/arith.cuh"

namespace spmm::kernels {
namespace {

// Grid: one CTA of Tile x Tile threads per Tile x Tile elements of C.
// Work: one element per thread; neighbouring threads read neighbouring elements of B and write neighbours of C.
// Memory: no shared memory; an element of A is read once per warp, one of B once per row of the CTA, from cache.
template <class Arith, unsigned Tile>
__global__ void __launch_bounds__(Tile* Tile)
    global_product(DenseShape shape, const typename Arith::In* __restrict__ a, const typename Arith::In* __restrict__ b,
                   typename Arith::Out* __restrict__ c) {
  const CtaCorner corner = cta_corner(shape, Tile, Tile);
  const std::uint64_t row = corner.row + threadIdx.y;
  const std::uint64_t column = corner.column + threadIdx.x;
  if (row >= shape.rows || column >= shape.cols) return;
  const typename Arith::In* left = a + row * shape.inner;
  const typename Arith::In* right = b + column;
  typename Arith::Sum sum = 0;
#pragma unroll 4
  for (std::uint32_t k = 0; k < shape.inner; ++k) {
    sum = Arith::add(sum, static_cast<typename Arith::Staged>(left[k]), static_cast<typename Arith::Staged>(*right));
    right += shape.cols;
  }
  c[row * shape.cols + column] = Arith::finish(sum);
}

}  // namespace

DenseLaunch dense_global(DenseType type, DenseShape shape, unsigned tile) {
  return for_dense_type(type, [&]<class Arith>(Arith) {
    return for_tile_width(tile, [&]<class Width>(Width) {
      return DenseLaunch{.function = reinterpret_cast<const void*>(&global_product<Arith, Width::value>),
                         .num_ctas = num_dense_ctas(shape, tile, tile),
                         .threads_x = tile,
                         .threads_y = tile};
    });
  });
}

}  // namespace spmm::kernels
