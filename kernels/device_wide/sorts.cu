// Radix sorts by the whole device, and the numbers that are sorted with keys.
#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/system_error.h>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"

namespace spmm::kernels {

template <class Value>
std::size_t sort_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  cub::DoubleBuffer<std::uint64_t> keys;
  cub::DoubleBuffer<Value> values;
  check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, count), "sort workspace");
  return bytes;
}

template <class Value>
void launch_sort(SortBuffers<std::uint64_t>& keys, SortBuffers<Value>& values, std::uint64_t count, unsigned num_bits,
                 Workspace work, cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> k(keys.front(), keys.back());
  cub::DoubleBuffer<Value> v(values.front(), values.back());
  check(cub::DeviceRadixSort::SortPairs(work.data, work.bytes, k, v, count, 0, static_cast<int>(num_bits), stream),
        "sort");
  keys.current ^= k.selector;
  values.current ^= v.selector;
}

// Blocks with their numbers; pairs by C block.
template std::size_t sort_workspace_bytes<std::uint32_t>(std::uint64_t);
template std::size_t sort_workspace_bytes<BlockPair>(std::uint64_t);
template void launch_sort(SortBuffers<std::uint64_t>&, SortBuffers<BlockPair>&, std::uint64_t, unsigned, Workspace,
                          cudaStream_t);

void launch_sort_blocks(SortBuffers<std::uint64_t>& keys, SortBuffers<std::uint32_t>& numbers, std::uint64_t count,
                        unsigned key_bits, Workspace work, cudaStream_t stream) {
  if (count == 0) return;
  try {
    thrust::sequence(thrust::cuda::par_nosync.on(stream), numbers.front(), numbers.front() + count);
  } catch (const thrust::system_error& error) {
    check(static_cast<cudaError_t>(error.code().value()), "number");
  }
  launch_sort(keys, numbers, count, 2 * key_bits, work, stream);
}

}  // namespace spmm::kernels
