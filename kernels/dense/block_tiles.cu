// The dense fallback on CUDA cores: block-sparse operands as dense u16, multiplied with register tiles into C
// blocks.
#include "kernels/check.hpp"
#include "kernels/dense/register.cuh"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

using register_tile::Four;

/// First element of the block at a position.
__device__ inline const std::uint16_t* block_at(const OperandView& operand, std::uint64_t position, std::uint32_t m) {
  const std::uint64_t block = operand.numbers == nullptr ? position : operand.numbers[position];
  return operand.values + block * m * m;
}

// Grid: one CTA per row.
// Work: one thread per row of a block: neighbouring threads take neighbouring blocks, which write neighbouring elements
//       of a dense row.
// Memory: m elements per thread; the parts of a sector combine in L2.
__global__ void __launch_bounds__(kItemThreads)
    expand_dense_a(OperandView a, std::uint32_t first_row, std::uint32_t m, DenseView target) {
  const std::uint32_t begin = a.index.offsets[first_row + blockIdx.x];
  const std::uint64_t count = a.index.offsets[first_row + blockIdx.x + 1] - begin;
  for (std::uint64_t x = threadIdx.x; x < count * m; x += blockDim.x) {
    const std::uint64_t position = begin + x % count;
    const std::uint64_t r = x / count;
    const std::uint16_t* const from = block_at(a, position, m) + r * m;
    std::uint16_t* const to = target.data + (std::uint64_t{blockIdx.x} * m + r) * target.stride +
                              std::uint64_t{a.index.columns[position]} * m;
    for (std::uint32_t k = 0; k < m; ++k) to[k] = from[k];
  }
}

// Grid: one CTA per row of B.
// Work: one thread per row of a block in the group of columns: a column of the stored block, which is transposed,
//       becomes m neighbouring elements.
// Memory: as expand_dense_a; a stored block comes from L1 after its first row.
__global__ void __launch_bounds__(kItemThreads)
    expand_dense_b(OperandView b, std::uint32_t first_column, std::uint32_t last_column, std::uint32_t m,
                   DenseView target) {
  const std::uint64_t row_end = b.index.offsets[blockIdx.x + 1];
  const std::uint64_t begin = lower_bound(b.index.columns, b.index.offsets[blockIdx.x], row_end, first_column);
  const std::uint64_t count = upper_bound(b.index.columns, begin, row_end, last_column) - begin;
  const std::uint64_t first_row = std::uint64_t{b.index.rows[blockIdx.x]} * m;
  for (std::uint64_t x = threadIdx.x; x < count * m; x += blockDim.x) {
    const std::uint64_t position = begin + x % count;
    const std::uint64_t r = x / count;
    const std::uint16_t* const from = block_at(b, position, m) + r;
    std::uint16_t* const to =
        target.data + (first_row + r) * target.stride + std::uint64_t{b.index.columns[position] - first_column} * m;
    for (std::uint32_t c = 0; c < m; ++c) to[c] = from[c * m];
  }
}

// Grid: one CTA of 256 threads per 128 x 128 elements of the product.
// Work: as register_product; results go to their C blocks, flags of those that are not zero are set.
// Memory: 3 stages of 18 KB, filled through registers two stages ahead.
__global__ void __launch_bounds__(register_tile::kThreads, 1)
    dense_tiled_blocks(DenseShape shape, const std::uint16_t* __restrict__ a, const std::uint16_t* __restrict__ b,
                       DenseTarget target) {
  extern __shared__ uint4 shared[];
  register_tile::multiply_tile<SaturatingU16, true>(
      shape, a, b, shared, [&](std::uint64_t row, std::uint64_t column, const Four<std::uint32_t>& four) {
        if (row >= target.num_rows) return;
        const std::uint32_t m = target.m;
        const auto r = static_cast<std::uint32_t>(row);
        const std::uint64_t first_c_block = std::uint64_t{r / m} * target.num_block_columns + target.first_block_column;
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) {
          if (column + j >= target.num_columns) return;
          const auto c = static_cast<std::uint32_t>(column) + j;
          const std::uint64_t c_block = first_c_block + c / m;
          target.results.values[(c_block * m + r % m) * m + c % m] = four.x[j];
          if (four.x[j] != 0 && target.results.non_zero != nullptr) {
            target.results.non_zero[c_block] = 1;  // all threads that write store 1: no atomic is needed
          }
        }
      });
}

void clear(const DenseView& target, cudaStream_t stream) {
  check(cudaMemsetAsync(target.data, 0, std::uint64_t{target.num_rows} * target.stride * sizeof(std::uint16_t), stream),
        "clear dense operand");
}

}  // namespace

void launch_expand_dense_a(const OperandView& a, std::uint32_t first_row, std::uint32_t num_rows, std::uint32_t m,
                           const DenseView& target, cudaStream_t stream) {
  clear(target, stream);
  if (num_rows == 0) return;
  expand_dense_a<<<num_rows, kItemThreads, 0, stream>>>(a, first_row, m, target);
  check_launch("expand_dense_a");
}

void launch_expand_dense_b(const OperandView& b, std::uint32_t first_column, std::uint32_t num_columns, std::uint32_t m,
                           const DenseView& target, cudaStream_t stream) {
  clear(target, stream);
  if (b.index.num_rows == 0 || num_columns == 0) return;
  expand_dense_b<<<b.index.num_rows, kItemThreads, 0, stream>>>(b, first_column, first_column + (num_columns - 1), m,
                                                                target);
  check_launch("expand_dense_b");
}

void launch_mul_dense_tiled(const DenseView& a, const DenseView& b, const DenseTarget& target, cudaStream_t stream) {
  const DenseShape shape{.rows = target.num_rows, .inner = a.stride, .cols = b.stride};
  const unsigned num_ctas = num_dense_ctas(shape, register_tile::kRows, register_tile::kColumns);
  if (num_ctas == 0) return;
  constexpr std::size_t kBytes = register_tile::kSharedBytes<SaturatingU16>;
  check(cudaFuncSetAttribute(dense_tiled_blocks, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes)),
        "dense_tiled_blocks shared memory");
  dense_tiled_blocks<<<num_ctas, register_tile::kThreads, kBytes, stream>>>(shape, a.data, b.data, target);
  check_launch("dense_tiled_blocks");
}

}  // namespace spmm::kernels
