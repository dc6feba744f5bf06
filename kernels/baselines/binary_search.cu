// Inner product by search: one CTA per C block searches each block of A's row in B's column.
#include "kernels/baselines/block_product.cuh"
#include "kernels/baselines/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

// Grid: one CTA per C block.
// Work: each thread takes blocks of A's row in turn and searches B's column for the same inner index; then all threads
//       multiply the matches found, one thread per element.
// Memory: A's indices are read contiguously, B's by binary search from global memory (the upper levels stay in cache).
template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    mul_binary_search(OperandView a, OperandView b, CBlocksView c_blocks, std::uint32_t m, CBlockResults results) {
  __shared__ BlockPair matches[Shape::kThreads];
  __shared__ std::uint32_t num_matches;
  __shared__ __align__(16) std::uint16_t stage[Shape::kStageBytes / 2];
  const std::uint64_t x = blockIdx.x;
  const CBlock c_block = c_block_at(c_blocks, x);
  const std::uint32_t begin_b = b.index.offsets[c_block.column];
  const std::uint32_t end_b = b.index.offsets[c_block.column + 1];
  const std::uint32_t end_a = a.index.offsets[c_block.row + 1];
  BlockProduct<Shape> product(a.values, b.values, m, stage);
  for (std::uint32_t first = a.index.offsets[c_block.row]; first < end_a; first += Shape::kThreads) {
    if (threadIdx.x == 0) num_matches = 0;
    __syncthreads();  // the counter is reset
    const std::uint32_t p = first + threadIdx.x;
    if (p < end_a) {
      const std::uint32_t wanted = a.index.columns[p];
      const auto q = static_cast<std::uint32_t>(lower_bound(b.index.columns, begin_b, end_b, wanted));
      if (q < end_b && b.index.columns[q] == wanted) {
        matches[atomicAdd(&num_matches, 1u)] = {.a = p, .b = q};  // in any order: sums are exact
      }
    }
    __syncthreads();  // all matches are listed
    const std::uint32_t count = num_matches;
    __syncthreads();  // all threads have read the counter; it is reset next
    product.add(matches, count);
  }
  const std::uint32_t elements = m * m;
  product.store(results.values + x * elements, results.non_zero + x);
}

}  // namespace

void launch_mul_binary_search(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                              const CBlockResults& results, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) return;
  for_cta_shape(m, [&](auto shape) {
    using Shape = decltype(shape);
    mul_binary_search<Shape>
        <<<static_cast<unsigned>(c_blocks.num_c_blocks), Shape::kThreads, 0, stream>>>(a, b, c_blocks, m, results);
  });
  check_launch("mul_binary_search");
}

}  // namespace spmm::kernels
