// Exact pair counts: how many blocks of B each block of A is multiplied with.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

/// Pairs of one block of A; 0 behind the last one, so that the scan ends with the total.
struct PairsOfBlock {
  const std::uint32_t* b_row_index;
  const std::uint32_t* b_offsets;
  std::uint64_t count;
  __host__ __device__ std::uint64_t operator()(std::uint64_t p) const {
    if (p >= count || b_row_index[p] == kNoRow) return 0;
    return b_offsets[b_row_index[p] + 1] - b_offsets[b_row_index[p]];
  }
};

auto pairs_of_blocks(PairsOfBlock pairs) {
  return thrust::make_transform_iterator(thrust::counting_iterator<std::uint64_t>(0), pairs);
}

/// Runs of `stride` rows.
std::uint64_t num_runs(std::uint32_t num_rows, std::uint32_t stride) {
  return (std::uint64_t{num_rows} + stride - 1) / stride;
}

// Grid: one thread per row of A.
// Work: the first row of each run, and the last of all, write an offset; a warp reduces its rows' largest pair count.
// Memory: scattered reads of the offsets, contiguous writes.
__global__ void row_pair_offsets(CompressedView a, const std::uint64_t* pair_offsets, std::uint32_t stride,
                                 std::uint64_t count, std::uint64_t* row_offsets, unsigned long long* max_row_pairs) {
  unsigned long long most = 0;
  for_each_item(a.num_rows, [&](std::uint64_t row) {
    const std::uint64_t begin = pair_offsets[a.offsets[row]];
    const std::uint64_t end = pair_offsets[a.offsets[row + 1]];
    if (row % stride == 0) row_offsets[row / stride] = begin;
    if (row + 1 == a.num_rows) row_offsets[count] = end;
    most = max(most, static_cast<unsigned long long>(end - begin));
  });
#pragma unroll
  for (std::uint32_t step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
  if (threadIdx.x % 32 == 0 && most > *max_row_pairs) {
    atomicMax(max_row_pairs, most);  // across CTAs; the maximum only grows, so a stale read costs one atomic
  }
}

}  // namespace

std::size_t count_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, pairs_of_blocks({nullptr, nullptr, count}),
                                      static_cast<std::uint64_t*>(nullptr), static_cast<std::int64_t>(count + 1)),
        "count workspace");
  return bytes;
}

void launch_pair_offsets(const std::uint32_t* b_row_index, std::uint64_t count, CompressedView b_rows,
                         std::uint64_t* pair_offsets, Workspace work, cudaStream_t stream) {
  check(cub::DeviceScan::ExclusiveSum(work.data, work.bytes, pairs_of_blocks({b_row_index, b_rows.offsets, count}),
                                      pair_offsets, static_cast<std::int64_t>(count + 1), stream),
        "pair offsets");
}

void launch_row_pair_offsets(CompressedView a, const std::uint64_t* pair_offsets, std::uint32_t stride,
                             std::uint64_t* row_offsets, std::uint64_t* max_row_pairs, cudaStream_t stream) {
  check(cudaMemsetAsync(max_row_pairs, 0, sizeof(std::uint64_t), stream), "most pairs of a row");
  row_pair_offsets<<<item_grid(a.num_rows), kItemThreads, 0, stream>>>(
      a, pair_offsets, stride, num_runs(a.num_rows, stride), row_offsets,
      reinterpret_cast<unsigned long long*>(max_row_pairs));
  check_launch("row_pair_offsets");
}

}  // namespace spmm::kernels
