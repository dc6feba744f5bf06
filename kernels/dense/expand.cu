// Block-sparse operands -> dense u16, for dense-tiled.
#include "kernels/check.hpp"
#include "kernels/dense/launch.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

// Grid: one CTA per row of the index.
// Work: one thread per row of a block: neighbouring threads take neighbouring blocks, which write neighbouring elements
//       of a dense row. B's blocks are transposed: a column of the stored block becomes m neighbouring elements.
// Memory: m elements per thread; the parts of a sector combine in L2, a stored block comes from L1 after its first row.
template <bool Transposed>
__global__ void __launch_bounds__(kItemThreads)
    expand_dense(OperandView operand, DenseRange range, std::uint32_t m, DenseView target) {
  const CompressedView& index = operand.index;
  const std::uint32_t row = range.first_row + blockIdx.x;
  const std::uint64_t row_end = index.offsets[row + 1];
  const std::uint64_t begin = lower_bound(index.columns, index.offsets[row], row_end, range.first_column);
  const std::uint64_t count = lower_bound(index.columns, begin, row_end, range.end_column) - begin;
  const std::uint64_t first_row = std::uint64_t{Transposed ? index.rows[row] : blockIdx.x} * m;
  for (std::uint64_t x = threadIdx.x; x < count * m; x += blockDim.x) {
    const std::uint64_t position = begin + x % count;
    const std::uint64_t r = x / count;
    const std::uint16_t* const from =
        operand.values + std::uint64_t{operand.number(static_cast<std::uint32_t>(position))} * m * m;
    std::uint16_t* const to =
        target.data + (first_row + r) * target.stride + std::uint64_t{index.columns[position] - range.first_column} * m;
    for (std::uint32_t c = 0; c < m; ++c) to[c] = Transposed ? from[c * m + r] : from[r * m + c];
  }
}

}  // namespace

void launch_expand_dense(const OperandView& operand, bool transposed, const DenseRange& range, std::uint32_t m,
                         const DenseView& target, cudaStream_t stream) {
  check(cudaMemsetAsync(target.data, 0, std::uint64_t{target.num_rows} * target.stride * sizeof(std::uint16_t), stream),
        "clear dense operand");
  if (range.num_rows == 0) return;
  const auto kernel = transposed ? expand_dense<true> : expand_dense<false>;
  kernel<<<range.num_rows, kItemThreads, 0, stream>>>(operand, range, m, target);
  check_launch("expand_dense");
}

}  // namespace spmm::kernels
