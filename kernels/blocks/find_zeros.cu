// Whether a product of two blocks can be zero. Where every column of every block of A holds a non-zero element, and so
// does every block of B, it cannot, and each C block that has a pair has a record.
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

/// Columns of blocks: `width` of them, one after the other, with `height` elements, `stride` apart.
struct Columns {
  std::uint32_t width;
  std::uint32_t height;
  std::uint32_t stride;
  std::uint32_t block_elements;
};

// Grid: one thread per column of a block.
// Work: reads down the column to the first non-zero element, in most data the first one.
// Memory: neighbouring threads read neighbouring elements; about one sector of 32 bytes of each block is touched.
__global__ void find_zero_columns(BlocksView blocks, Columns columns, std::uint32_t* found) {
  for_each_item(blocks.count * columns.width, [=](std::uint64_t x) {
    const std::uint16_t* const column = blocks.values + x / columns.width * columns.block_elements + x % columns.width;
    std::uint32_t row = 0;
    while (row < columns.height && column[row * columns.stride] == 0) ++row;
    if (row == columns.height) *found = 1;  // all threads that write store 1: no atomic is needed
  });
}

}  // namespace

void launch_find_zeros(const BlocksView& a, const BlocksView& b, BlockShape shape, std::uint32_t* found,
                       cudaStream_t stream) {
  const auto [m, side] = shape;
  const std::uint32_t elements = side * side;
  check(cudaMemsetAsync(found, 0, sizeof(std::uint32_t), stream), "clear flag");
  if (a.count == 0 || b.count == 0) return;
  const Columns of_a{.width = m, .height = m, .stride = side, .block_elements = elements};
  const Columns of_b{.width = 1, .height = elements, .stride = 1, .block_elements = elements};  // padding is zero
  find_zero_columns<<<item_grid(a.count * m), kItemThreads, 0, stream>>>(a, of_a, found);
  find_zero_columns<<<item_grid(b.count), kItemThreads, 0, stream>>>(b, of_b, found);
  check_launch("find_zero_columns");
}

}  // namespace spmm::kernels
