// Counts the elements of packed records that are at the limit, for kernels that write records themselves.
#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/saturated_count.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint64_t kWordsPerThread = 16;

// Grid: one thread per kWordsPerThread words of 64 bits, which lie a grid apart.
// Work: words are compared with the limit. Indices of blocks are among them: none is as large, since a matrix has at
//       most 2^32 - 1 block rows and columns.
// Memory: contiguous reads.
__global__ void __launch_bounds__(kItemThreads)
    count_saturated(const std::uint32_t* records, std::uint64_t num_words, unsigned long long* num_saturated) {
  SaturatedCount count;
  for_each_item(num_words / 2, [&](std::uint64_t x) { count.add(reinterpret_cast<const std::uint64_t*>(records)[x]); });
  if (num_words % 2 != 0 && blockIdx.x == 0 && threadIdx.x == 0) count.add(records[num_words - 1]);
  count.add_to(num_saturated);
}

}  // namespace

void launch_count_saturated(const std::uint32_t* records, std::uint64_t num_words, unsigned long long* num_saturated,
                            cudaStream_t stream) {
  if (num_words == 0) return;
  const unsigned grid = item_grid(num_words / 2 / kWordsPerThread);
  count_saturated<<<grid, kItemThreads, 0, stream>>>(records, num_words, num_saturated);
  check_launch("count_saturated");
}

}  // namespace spmm::kernels
