// Whether a product of two blocks can be zero: where every column of every block of A holds something, and so does
// every block of B, it cannot, and each C block that has a pair has a record.
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

// Grid: one thread per column, a block being height rows of width elements.
// Work: goes down the column until it finds something, in most data at once.
// Memory: neighbouring threads read neighbouring elements; about one sector of 32 bytes of each block is touched.
__global__ void find_zero_columns(const std::uint16_t* values, std::uint64_t num_columns, std::uint32_t width,
                                  std::uint32_t height, std::uint32_t* found) {
  for_each_item(num_columns, [=](std::uint64_t x) {
    const std::uint16_t* const column = values + x / width * width * height + x % width;
    std::uint32_t row = 0;
    while (row < height && column[row * width] == 0) ++row;
    if (row == height) *found = 1;  // everyone who writes writes 1
  });
}

}  // namespace

void launch_find_zeros(const std::uint16_t* a_values, std::uint64_t num_a, const std::uint16_t* b_values,
                       std::uint64_t num_b, std::uint32_t m, std::uint32_t* found, cudaStream_t stream) {
  check(cudaMemsetAsync(found, 0, sizeof(std::uint32_t), stream), "clear flag");
  if (num_a == 0 || num_b == 0) return;
  find_zero_columns<<<item_grid(num_a * m), kItemThreads, 0, stream>>>(a_values, num_a * m, m, m, found);
  find_zero_columns<<<item_grid(num_b), kItemThreads, 0, stream>>>(b_values, num_b, 1, m * m, found);
  check_launch("find_zero_columns");
}

}  // namespace spmm::kernels
