// Keys and elements in file order -> compressed rows (DCSR, DCSC) with blocks in row order.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per number.
// Work: x -> number x.
// Memory: contiguous writes.
__global__ void number(std::uint32_t* numbers, std::uint64_t count) {
  for_each_item(count, [=](std::uint64_t x) { numbers[x] = static_cast<std::uint32_t>(x); });
}

// Grid: one thread per key.
// Work: compares a key with the one before.
// Memory: contiguous reads, the second one from cache.
__global__ void find_duplicate(SortedKeysView sorted, unsigned long long* first) {
  for_each_item(sorted.count, [=](std::uint64_t x) {
    if (x > 0 && sorted.keys[x] == sorted.keys[x - 1]) {
      atomicMin(first, static_cast<unsigned long long>(x));  // the first one is reported; bad files only
    }
  });
}

// Grid: one thread per row and one more.
// Work: row index x -> block row of its first key; the last thread writes the closing offset.
// Memory: contiguous writes; a scattered read of 8 bytes per row.
__global__ void row_ids(SortedKeysView sorted, std::uint32_t num_rows, std::uint32_t* offsets, std::uint32_t* rows) {
  for_each_item(std::uint64_t{num_rows} + 1, [=](std::uint64_t x) {
    if (x == num_rows) {
      offsets[x] = static_cast<std::uint32_t>(sorted.count);
    } else {
      rows[x] = static_cast<std::uint32_t>(sorted.keys[offsets[x]] >> sorted.key_bits);
    }
  });
}

// Grid: one thread per key.
// Work: the low half of a key -> block column.
// Memory: contiguous reads and writes.
__global__ void take_columns(SortedKeysView sorted, std::uint32_t* columns) {
  const std::uint64_t mask = (std::uint64_t{1} << sorted.key_bits) - 1;
  for_each_item(sorted.count, [=](std::uint64_t x) { columns[x] = static_cast<std::uint32_t>(sorted.keys[x] & mask); });
}

// Grid: one thread per key.
// Work: exchanges the halves of a key.
// Memory: contiguous, in place.
__global__ void swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits) {
  const std::uint64_t mask = (std::uint64_t{1} << key_bits) - 1;
  for_each_item(count, [=](std::uint64_t x) { keys[x] = (keys[x] & mask) << key_bits | keys[x] >> key_bits; });
}

// Grid: one thread per item.
// Work: out[x] = outer[inner[x]].
// Memory: scattered reads of outer, else contiguous.
__global__ void compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count,
                        std::uint32_t* out) {
  for_each_item(count, [=](std::uint64_t x) { out[x] = outer[inner[x]]; });
}

/// Words of blocks per CTA, at most; one block at least: four loads per thread, all in flight.
constexpr std::uint32_t kGatherWords = 1024;

// Grid: one CTA per blocks_per_cta blocks.
// Work: one thread per Word of the result, neighbours by neighbouring threads. Words: per block, 0 = at run time.
// Memory: writes are contiguous; reads are whole blocks, scattered.
template <class Word, std::uint32_t Words>
__global__ void __launch_bounds__(kItemThreads)
    gather_blocks(const Word* values, const std::uint32_t* numbers, std::uint64_t count, std::uint32_t run_time_words,
                  std::uint32_t blocks_per_cta, const SortFindings* found, Word* out) {
  if (found != nullptr && !found->is_sorted()) return;
  const std::uint32_t words = Words != 0 ? Words : run_time_words;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blocks_per_cta;
  const auto num_blocks = static_cast<std::uint32_t>(min(std::uint64_t{blocks_per_cta}, count - first));
#pragma unroll 4
  for (std::uint32_t x = threadIdx.x; x < num_blocks * words; x += kItemThreads) {
    out[first * words + x] = values[std::uint64_t{numbers[first + x / words]} * words + x % words];
  }
}

/// Blocks of M x M elements, as words of as many bytes as their alignment allows.
template <class Word, std::uint32_t M>
void gather(const BlocksView& blocks, const std::uint32_t* numbers, std::uint32_t m, const SortFindings* found,
            std::uint16_t* out, cudaStream_t stream) {
  constexpr std::uint32_t kPerWord = sizeof(Word) / sizeof(std::uint16_t);
  const std::uint32_t words = m * m / kPerWord;
  const std::uint32_t blocks_per_cta = std::max(1u, kGatherWords / words);
  const auto grid = static_cast<unsigned>((blocks.count + blocks_per_cta - 1) / blocks_per_cta);
  gather_blocks<Word, M * M / kPerWord><<<grid, kItemThreads, 0, stream>>>(reinterpret_cast<const Word*>(blocks.values),
                                                                           numbers, blocks.count, words, blocks_per_cta,
                                                                           found, reinterpret_cast<Word*>(out));
}

// Grid: one CTA per blocks_per_cta blocks.
// Work: one thread per four elements of a row of the result, neighbours by neighbouring threads; zeros behind m columns
//       and rows.
// Memory: writes are contiguous; reads are whole blocks, scattered, element by element.
template <std::uint32_t P>
__global__ void __launch_bounds__(kItemThreads)
    gather_padded(BlocksView blocks, const std::uint32_t* numbers, std::uint32_t m, std::uint32_t blocks_per_cta,
                  const SortFindings* found, uint2* out) {
  if (found != nullptr && !found->is_sorted()) return;
  constexpr std::uint32_t kWords = P * P / 4;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blocks_per_cta;
  const auto num_blocks = static_cast<std::uint32_t>(min(std::uint64_t{blocks_per_cta}, blocks.count - first));
#pragma unroll 2
  for (std::uint32_t x = threadIdx.x; x < num_blocks * kWords; x += kItemThreads) {
    const std::uint32_t row = x % kWords / (P / 4);
    const std::uint32_t column = x % (P / 4) * 4;
    const std::uint16_t* const from =
        blocks.values + (std::uint64_t{numbers[first + x / kWords]} * m + row) * m + column;
    std::uint32_t four[4];
#pragma unroll
    for (std::uint32_t e = 0; e < 4; ++e) four[e] = row < m && column + e < m ? from[e] : 0;
    out[first * kWords + x] = uint2{four[0] | four[1] << 16, four[2] | four[3] << 16};
  }
}

template <std::uint32_t P>
void gather_padded(const BlocksView& blocks, const std::uint32_t* numbers, std::uint32_t m, const SortFindings* found,
                   std::uint16_t* out, cudaStream_t stream) {
  constexpr std::uint32_t kBlocksPerCta = std::max(1u, kGatherWords / (P * P / 4));
  const auto grid = static_cast<unsigned>((blocks.count + kBlocksPerCta - 1) / kBlocksPerCta);
  gather_padded<P>
      <<<grid, kItemThreads, 0, stream>>>(blocks, numbers, m, kBlocksPerCta, found, reinterpret_cast<uint2*>(out));
}

// Grid: one thread per wanted block row.
// Work: a binary search in the stored rows.
// Memory: log2(num_rows) scattered words, the upper levels of which stay in cache; contiguous writes.
__global__ void find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index,
                               std::uint32_t* row_index) {
  for_each_item(count, [=](std::uint64_t x) {
    const std::uint32_t row = wanted[x];
    const std::uint64_t found = lower_bound(index.rows, 0, index.num_rows, row);
    row_index[x] = found < index.num_rows && index.rows[found] == row ? static_cast<std::uint32_t>(found) : kNoRow;
  });
}

// Grid: one thread per stored row.
// Work: a row writes its row index to the entry of its block row.
// Memory: contiguous reads; writes ascend.
__global__ void fill_row_table(CompressedView index, std::uint32_t* table) {
  for_each_item(index.num_rows, [=](std::uint64_t x) { table[index.rows[x]] = static_cast<std::uint32_t>(x); });
}

}  // namespace

std::size_t build_workspace_bytes(std::uint64_t count) {
  return std::max(sort_workspace_bytes<std::uint32_t>(count), select_workspace_bytes<OpensRow>(count));
}

void launch_number(std::uint32_t* numbers, std::uint64_t count, cudaStream_t stream) {
  if (count == 0) return;
  number<<<item_grid(count), kItemThreads, 0, stream>>>(numbers, count);
  check_launch("number");
}

void launch_sort_blocks(SortBuffers<std::uint64_t>& keys, SortBuffers<std::uint32_t>& numbers, std::uint64_t count,
                        unsigned key_bits, Workspace work, cudaStream_t stream) {
  if (count == 0) return;
  launch_sort(keys, numbers, count, {.first = 0, .end = 2 * key_bits}, work, stream);
}

void launch_find_duplicate(const SortedKeysView& sorted, unsigned long long* first_duplicate, cudaStream_t stream) {
  if (sorted.count == 0) return;
  find_duplicate<<<item_grid(sorted.count), kItemThreads, 0, stream>>>(sorted, first_duplicate);
  check_launch("find_duplicate");
}

void launch_row_offsets(const SortedKeysView& sorted, std::uint32_t* offsets, std::uint32_t* num_rows, Workspace work,
                        cudaStream_t stream) {
  const OpensRow opens{sorted.keys, sorted.key_bits};
  launch_select(opens, sorted.count, {.numbers = offsets, .count = num_rows}, work, stream, "row offsets");
}

void launch_row_ids(const SortedKeysView& sorted, std::uint32_t num_rows, std::uint32_t* offsets, std::uint32_t* rows,
                    cudaStream_t stream) {
  row_ids<<<item_grid(num_rows + std::uint64_t{1}), kItemThreads, 0, stream>>>(sorted, num_rows, offsets, rows);
  check_launch("row_ids");
}

void launch_take_columns(const SortedKeysView& sorted, std::uint32_t* columns, cudaStream_t stream) {
  if (sorted.count == 0) return;
  take_columns<<<item_grid(sorted.count), kItemThreads, 0, stream>>>(sorted, columns);
  check_launch("take_columns");
}

void launch_swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits, cudaStream_t stream) {
  if (count == 0) return;
  swap_keys<<<item_grid(count), kItemThreads, 0, stream>>>(keys, count, key_bits);
  check_launch("swap_keys");
}

void launch_gather_blocks(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                          std::uint32_t m, std::uint16_t* out, cudaStream_t stream, const SortFindings* found) {
  if (count == 0) return;
  const BlocksView blocks{.values = values, .count = count};
  for_block_side<4, 8>(m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if constexpr (kM != 0) {
      gather<uint4, kM>(blocks, numbers, m, found, out, stream);
    } else if (m % 2 == 0) {
      gather<uint2, 0>(blocks, numbers, m, found, out, stream);
    } else {
      gather<std::uint16_t, 0>(blocks, numbers, m, found, out, stream);
    }
  });
  check_launch("gather_blocks");
}

void launch_gather_padded(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                          std::uint32_t m, std::uint16_t* out, cudaStream_t stream, const SortFindings* found) {
  if (count == 0) return;
  for_padded_side(m, [&](auto side) {
    gather_padded<decltype(side)::value>({.values = values, .count = count}, numbers, m, found, out, stream);
  });
  check_launch("gather_padded");
}

void launch_compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count, std::uint32_t* out,
                    cudaStream_t stream) {
  if (count == 0) return;
  compose<<<item_grid(count), kItemThreads, 0, stream>>>(outer, inner, count, out);
  check_launch("compose");
}

void launch_find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index,
                           std::uint32_t* row_index, cudaStream_t stream) {
  if (count == 0) return;
  find_row_index<<<item_grid(count), kItemThreads, 0, stream>>>(wanted, count, index, row_index);
  check_launch("find_row_index");
}

void launch_look_up_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index, std::uint32_t nb,
                              std::uint32_t* table, std::uint32_t* row_index, cudaStream_t stream) {
  static_assert(kNoRow == 0xFFFF'FFFFu);  // all bytes alike
  if (count == 0) return;
  check(cudaMemsetAsync(table, 0xFF, nb * sizeof(std::uint32_t), stream), "clear row table");
  fill_row_table<<<item_grid(index.num_rows), kItemThreads, 0, stream>>>(index, table);
  check_launch("fill_row_table");
  compose<<<item_grid(count), kItemThreads, 0, stream>>>(table, wanted, count, row_index);
  check_launch("look_up_row_index");
}

}  // namespace spmm::kernels
