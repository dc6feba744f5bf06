// The multiply kernel of host-driven: the host finds the pairs of one C block and launches its product.
#include "kernels/baselines/block_product.cuh"
#include "kernels/baselines/launch.hpp"
#include "kernels/check.hpp"

namespace spmm::kernels {
namespace {

// Grid: one CTA.
// Work: one thread per element.
// Memory: the pair list is read from where the host left it; operands are staged in shared memory.
template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    mul_host_pairs(OperandView a, OperandView b, HostPairs list, std::uint32_t m, CBlockResults results) {
  __shared__ __align__(16) std::uint16_t stage[Shape::kStageBytes / 2];
  BlockProduct<Shape> product(a.values, b.values, m, stage);
  product.add(list.pairs, list.num_pairs);
  const std::uint32_t elements = m * m;
  product.store(results.values + list.c_block * elements, results.non_zero + list.c_block);
}

}  // namespace

void launch_mul_host_pairs(const OperandView& a, const OperandView& b, const HostPairs& list, std::uint32_t m,
                           const CBlockResults& results, cudaStream_t stream) {
  for_cta_shape(m, [&](auto shape) {
    using Shape = decltype(shape);
    mul_host_pairs<Shape><<<1, Shape::kThreads, 0, stream>>>(a, b, list, m, results);
  });
  check_launch("mul_host_pairs");
}

}  // namespace spmm::kernels
