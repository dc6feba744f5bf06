// Radix sorts by the whole device.
#include <cub/device/device_radix_sort.cuh>

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
void launch_sort(SortBuffers<std::uint64_t>& keys, SortBuffers<Value>& values, std::uint64_t count, KeyBits bits,
                 Workspace work, cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> k(keys.front(), keys.back());
  cub::DoubleBuffer<Value> v(values.front(), values.back());
  check(cub::DeviceRadixSort::SortPairs(work.data, work.bytes, k, v, count, static_cast<int>(bits.first),
                                        static_cast<int>(bits.end), stream),
        "sort");
  keys.current ^= k.selector;
  values.current ^= v.selector;
}

// Blocks with their numbers; pairs by C block.
template std::size_t sort_workspace_bytes<std::uint32_t>(std::uint64_t);
template std::size_t sort_workspace_bytes<BlockPair>(std::uint64_t);
template void launch_sort(SortBuffers<std::uint64_t>&, SortBuffers<std::uint32_t>&, std::uint64_t, KeyBits, Workspace,
                          cudaStream_t);
template void launch_sort(SortBuffers<std::uint64_t>&, SortBuffers<BlockPair>&, std::uint64_t, KeyBits, Workspace,
                          cudaStream_t);

std::size_t sort_keys_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  cub::DoubleBuffer<std::uint64_t> keys;
  check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys, count), "sort workspace");
  return bytes;
}

void launch_sort_keys(SortBuffers<std::uint64_t>& keys, std::uint64_t count, KeyBits bits, Workspace work,
                      cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> k(keys.front(), keys.back());
  check(cub::DeviceRadixSort::SortKeys(work.data, work.bytes, k, count, static_cast<int>(bits.first),
                                       static_cast<int>(bits.end), stream),
        "sort");
  keys.current ^= k.selector;
}

}  // namespace spmm::kernels
