// Keys and elements in file order -> compressed lines (block-CSR, block-CSC) with blocks in line order.
#include <algorithm>

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

/// 1 where a sorted key opens a new line.
struct OpensRow {
  const std::uint64_t* keys;
  unsigned key_bits;
  __host__ __device__ bool operator()(std::uint64_t x) const {
    return x == 0 || keys[x] >> key_bits != keys[x - 1] >> key_bits;
  }
};

auto opens_row_flags(const std::uint64_t* keys, unsigned key_bits) {
  return thrust::make_transform_iterator(thrust::counting_iterator<std::uint64_t>(0), OpensRow{keys, key_bits});
}

// Grid: one thread per item for all kernels below. Memory: contiguous reads and writes unless said otherwise.

__global__ void number(std::uint32_t* numbers, std::uint64_t count) {
  for_each_item(count, [=](std::uint64_t x) { numbers[x] = static_cast<std::uint32_t>(x); });
}

__global__ void find_duplicate(const std::uint64_t* keys, std::uint64_t count, unsigned long long* first) {
  for_each_item(count, [=](std::uint64_t x) {
    if (x > 0 && keys[x] == keys[x - 1]) atomicMin(first, static_cast<unsigned long long>(x));  // only in bad files
  });
}

__global__ void row_ids(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t num_rows,
                        std::uint32_t* offsets, std::uint32_t* lines) {
  for_each_item(std::uint64_t{num_rows} + 1, [=](std::uint64_t x) {
    if (x == num_rows) {
      offsets[x] = static_cast<std::uint32_t>(count);
    } else {
      lines[x] = static_cast<std::uint32_t>(keys[offsets[x]] >> key_bits);
    }
  });
}

__global__ void take_columns(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t* inner) {
  const std::uint64_t mask = (std::uint64_t{1} << key_bits) - 1;
  for_each_item(count, [=](std::uint64_t x) { inner[x] = static_cast<std::uint32_t>(keys[x] & mask); });
}

__global__ void swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits) {
  const std::uint64_t mask = (std::uint64_t{1} << key_bits) - 1;
  for_each_item(count, [=](std::uint64_t x) { keys[x] = (keys[x] & mask) << key_bits | keys[x] >> key_bits; });
}

__global__ void compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count,
                        std::uint32_t* out) {
  for_each_item(count, [=](std::uint64_t x) { out[x] = outer[inner[x]]; });
}

constexpr std::uint32_t kGatherWords = 4096;  // of blocks per CTA, at most; one block at least

// Grid: one CTA per blocks_per_cta blocks. Work: one thread per Word of the result. Words: per block, 0 = at run time.
// Memory: writes are contiguous; reads are whole blocks, scattered.
template <class Word, std::uint32_t Words>
__global__ void __launch_bounds__(kItemThreads)
    gather_blocks(const Word* values, const std::uint32_t* numbers, std::uint64_t count, std::uint32_t run_time_words,
                  std::uint32_t blocks_per_cta, Word* out) {
  const std::uint32_t words = Words != 0 ? Words : run_time_words;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blocks_per_cta;
  const auto num_blocks = static_cast<std::uint32_t>(min(std::uint64_t{blocks_per_cta}, count - first));
#pragma unroll 4
  for (std::uint32_t x = threadIdx.x; x < num_blocks * words; x += kItemThreads) {
    out[first * words + x] = values[std::uint64_t{numbers[first + x / words]} * words + x % words];
  }
}

template <class Word, std::uint32_t Words>
void gather(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count, std::uint32_t words,
            std::uint16_t* out, cudaStream_t stream) {
  const std::uint32_t blocks_per_cta = std::max(1u, kGatherWords / words);
  const auto grid = static_cast<unsigned>((count + blocks_per_cta - 1) / blocks_per_cta);
  gather_blocks<Word, Words><<<grid, kItemThreads, 0, stream>>>(reinterpret_cast<const Word*>(values), numbers, count,
                                                                words, blocks_per_cta, reinterpret_cast<Word*>(out));
}

// Memory: the binary search reads log2(num_rows) scattered words, the upper levels of which stay in cache.
__global__ void find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index,
                               std::uint32_t* slots) {
  for_each_item(count, [=](std::uint64_t x) {
    const std::uint32_t line = wanted[x];
    const std::uint64_t slot = lower_bound(index.rows, 0, index.num_rows, line);
    slots[x] = slot < index.num_rows && index.rows[slot] == line ? static_cast<std::uint32_t>(slot) : kNoRow;
  });
}

}  // namespace

std::size_t build_workspace_bytes(std::uint64_t count) {
  std::size_t pairs = 0;
  std::size_t select = 0;
  cub::DoubleBuffer<std::uint64_t> key_buffers;
  cub::DoubleBuffer<std::uint32_t> number_buffers;
  check(cub::DeviceRadixSort::SortPairs(nullptr, pairs, key_buffers, number_buffers, count), "sort workspace");
  check(cub::DeviceSelect::Flagged(nullptr, select, thrust::counting_iterator<std::uint32_t>(0),
                                   opens_row_flags(nullptr, 1), static_cast<std::uint32_t*>(nullptr),
                                   static_cast<std::uint32_t*>(nullptr), static_cast<std::int64_t>(count)),
        "select workspace");
  return std::max(pairs, select);
}

void launch_number(std::uint32_t* numbers, std::uint64_t count, cudaStream_t stream) {
  if (count == 0) return;
  number<<<item_grid(count), kItemThreads, 0, stream>>>(numbers, count);
  check_launch("number");
}

void launch_sort_blocks(SortBuffers<std::uint64_t>& keys, SortBuffers<std::uint32_t>& numbers, std::uint64_t count,
                        unsigned key_bits, Workspace work, cudaStream_t stream) {
  if (count == 0) return;
  cub::DoubleBuffer<std::uint64_t> k(keys.front(), keys.back());
  cub::DoubleBuffer<std::uint32_t> n(numbers.front(), numbers.back());
  check(cub::DeviceRadixSort::SortPairs(work.data, work.bytes, k, n, count, 0, static_cast<int>(2 * key_bits), stream),
        "sort blocks");
  keys.current ^= k.selector;
  numbers.current ^= n.selector;
}

void launch_find_duplicate(const std::uint64_t* keys, std::uint64_t count, unsigned long long* first_duplicate,
                           cudaStream_t stream) {
  if (count == 0) return;
  find_duplicate<<<item_grid(count), kItemThreads, 0, stream>>>(keys, count, first_duplicate);
  check_launch("find_duplicate");
}

void launch_row_offsets(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t* offsets,
                        std::uint32_t* num_rows, Workspace work, cudaStream_t stream) {
  check(cub::DeviceSelect::Flagged(work.data, work.bytes, thrust::counting_iterator<std::uint32_t>(0),
                                   opens_row_flags(keys, key_bits), offsets, num_rows, static_cast<std::int64_t>(count),
                                   stream),
        "row offsets");
}

void launch_row_ids(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t num_rows,
                    std::uint32_t* offsets, std::uint32_t* lines, cudaStream_t stream) {
  row_ids<<<item_grid(num_rows + std::uint64_t{1}), kItemThreads, 0, stream>>>(keys, count, key_bits, num_rows, offsets,
                                                                               lines);
  check_launch("row_ids");
}

void launch_take_columns(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t* inner,
                         cudaStream_t stream) {
  if (count == 0) return;
  take_columns<<<item_grid(count), kItemThreads, 0, stream>>>(keys, count, key_bits, inner);
  check_launch("take_columns");
}

void launch_swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits, cudaStream_t stream) {
  if (count == 0) return;
  swap_keys<<<item_grid(count), kItemThreads, 0, stream>>>(keys, count, key_bits);
  check_launch("swap_keys");
}

void launch_gather_blocks(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                          std::uint32_t m, std::uint16_t* out, cudaStream_t stream) {
  if (count == 0) return;
  if (m == 4) {
    gather<uint4, 2>(values, numbers, count, 2, out, stream);
  } else if (m == 8) {
    gather<uint4, 8>(values, numbers, count, 8, out, stream);
  } else if (m % 2 == 0) {
    gather<uint2, 0>(values, numbers, count, m * m / 4, out, stream);
  } else {
    gather<std::uint16_t, 0>(values, numbers, count, m * m, out, stream);
  }
  check_launch("gather_blocks");
}

void launch_compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count, std::uint32_t* out,
                    cudaStream_t stream) {
  if (count == 0) return;
  compose<<<item_grid(count), kItemThreads, 0, stream>>>(outer, inner, count, out);
  check_launch("compose");
}

void launch_find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index, std::uint32_t* slots,
                           cudaStream_t stream) {
  if (count == 0) return;
  find_row_index<<<item_grid(count), kItemThreads, 0, stream>>>(wanted, count, index, slots);
  check_launch("find_row_index");
}

}  // namespace spmm::kernels
