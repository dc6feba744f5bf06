// Whether a product of two blocks can be zero. Where every column of every block of A holds a non-zero element, and so
// does every block of B, it cannot, and each C block that has a pair has a record.
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

// Grid: one thread per column of a block of height rows by width elements.
// Work: reads down the column to the first non-zero element, in most data the first one.
// Memory: neighbouring threads read neighbouring elements; about one sector of 32 bytes of each block is touched.
__global__ void find_zero_columns(const std::uint16_t* values, std::uint64_t num_columns, std::uint32_t width,
                                  std::uint32_t height, std::uint32_t* found) {
  for_each_item(num_columns, [=](std::uint64_t x) {
    const std::uint16_t* const column = values + x / width * width * height + x % width;
    std::uint32_t row = 0;
    while (row < height && column[row * width] == 0) ++row;
    if (row == height) *found = 1;  // all threads that write store 1: no atomic is needed
  });
}

}  // namespace

void launch_find_zeros(const BlocksView& a, const BlocksView& b, std::uint32_t m, std::uint32_t* found,
                       cudaStream_t stream) {
  check(cudaMemsetAsync(found, 0, sizeof(std::uint32_t), stream), "clear flag");
  if (a.count == 0 || b.count == 0) return;
  find_zero_columns<<<item_grid(a.count * m), kItemThreads, 0, stream>>>(a.values, a.count * m, m, m, found);
  find_zero_columns<<<item_grid(b.count), kItemThreads, 0, stream>>>(b.values, b.count, 1, m * m, found);
  check_launch("find_zero_columns");
}

}  // namespace spmm::kernels
