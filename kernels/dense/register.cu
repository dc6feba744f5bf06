// Dense product with register tiles, row-major result.
#include "kernels/check.hpp"
#include "kernels/dense/register.cuh"

namespace spmm::kernels {
namespace {

using register_tile::Four;

/// CTAs per multiprocessor that registers are shared among: 64-bit sums take all of them.
template <class Arith>
constexpr unsigned kMinCtas = sizeof(typename Arith::Sum) == 8 ? 1 : 2;

// Grid: one CTA of 256 threads per 128 x 128 elements of C.
// Work: 8 x 8 elements per thread; chunks of 4 elements are loaded by neighbouring threads from neighbouring addresses.
//       Whole: K and L are multiples of 4, so that chunks are aligned and never cut; else element by element.
// Memory: 3 stages of 18 KB, filled by asynchronous copies (u16: through registers, widened) two stages ahead.
template <class Arith, bool Whole>
__global__ void __launch_bounds__(register_tile::kThreads, kMinCtas<Arith>)
    register_product(DenseShape shape, const typename Arith::In* __restrict__ a,
                     const typename Arith::In* __restrict__ b, typename Arith::Out* __restrict__ c) {
  using Out = typename Arith::Out;
  extern __shared__ uint4 shared[];
  register_tile::multiply_tile<Arith, Whole>(shape, a, b, shared,
                                             [&](std::uint64_t row, std::uint64_t column, const Four<Out>& four) {
                                               if (row >= shape.rows || column >= shape.cols) return;
                                               Out* const to = c + row * shape.cols + column;
                                               if constexpr (Whole) {
                                                 *reinterpret_cast<Four<Out>*>(to) = four;
                                               } else {
#pragma unroll
                                                 for (unsigned j = 0; j < 4; ++j) {
                                                   if (column + j < shape.cols) to[j] = four.x[j];
                                                 }
                                               }
                                             });
}

template <class Arith, bool Whole>
DenseLaunch make_launch(DenseShape shape) {
  const auto* const function = reinterpret_cast<const void*>(&register_product<Arith, Whole>);
  constexpr std::size_t kBytes = register_tile::kSharedBytes<Arith>;
  check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes)),
        "register_product shared memory");
  return {.function = function,
          .num_ctas = num_dense_ctas(shape, register_tile::kRows, register_tile::kColumns),
          .threads_x = register_tile::kThreads,
          .threads_y = 1,
          .dynamic_shared_bytes = kBytes};
}

}  // namespace

DenseLaunch dense_register(DenseType type, DenseShape shape) {
  return for_dense_type(type, [&]<class Arith>(Arith) {
    return shape.inner % 4 == 0 && shape.cols % 4 == 0 ? make_launch<Arith, true>(shape)
                                                       : make_launch<Arith, false>(shape);
  });
}

}  // namespace spmm::kernels
