// Keys and elements in file order -> compressed rows (DCSR, DCSC) with blocks in row order.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/row_segments.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per key.
// Work: a key's block column, and whether the one before is the same; the block row of row index x, from its first key.
// Memory: contiguous, but for a scattered read of 8 bytes per row.
__global__ void split_keys(SortedKeysView sorted, const std::uint32_t* num_rows, CompressedArrays to,
                           unsigned long long* first_duplicate) {
  const std::uint64_t mask = (std::uint64_t{1} << sorted.key_bits) - 1;
  const std::uint32_t rows = *num_rows;
  for_each_item(sorted.count, [=](std::uint64_t x) {
    const std::uint64_t key = sorted.keys[x];
    to.columns[x] = static_cast<std::uint32_t>(key & mask);
    if (x > 0 && key == sorted.keys[x - 1]) {
      atomicMin(first_duplicate, static_cast<unsigned long long>(x));  // the first one is reported; bad files only
    }
    if (x < rows) to.rows[x] = static_cast<std::uint32_t>(sorted.keys[to.offsets[x]] >> sorted.key_bits);
    if (x == 0) to.offsets[rows] = static_cast<std::uint32_t>(sorted.count);
  });
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

/// Four elements of a row of a block that is padded to side P: zeros behind m columns and rows.
template <std::uint32_t P>
__device__ inline uint2 padded_word(const std::uint16_t* block, std::uint32_t m, std::uint32_t x) {
  const std::uint32_t row = x / (P / 4);
  const std::uint32_t column = x % (P / 4) * 4;
  std::uint32_t four[4];
#pragma unroll
  for (std::uint32_t e = 0; e < 4; ++e) four[e] = row < m && column + e < m ? block[row * m + column + e] : 0;
  return uint2{four[0] | four[1] << 16, four[2] | four[3] << 16};
}

// Grid: one CTA per blocks_per_cta blocks.
// Work: one thread per Word of the result, neighbours by neighbouring threads. Words: of a block, 0 = at run time.
//       P: side that blocks are padded to, 0 = they are not.
// Memory: writes are contiguous; reads are whole blocks, scattered.
template <class Word, std::uint32_t Words, std::uint32_t P>
__global__ void __launch_bounds__(kItemThreads)
    gather_blocks(BlocksView blocks, const std::uint32_t* numbers, std::uint32_t m, std::uint32_t run_time_words,
                  std::uint32_t blocks_per_cta, Word* out) {
  const std::uint32_t words = Words != 0 ? Words : run_time_words;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blocks_per_cta;
  const auto num_blocks = static_cast<std::uint32_t>(min(std::uint64_t{blocks_per_cta}, blocks.count - first));
#pragma unroll 4
  for (std::uint32_t x = threadIdx.x; x < num_blocks * words; x += kItemThreads) {
    const std::uint16_t* const block = blocks.values + std::uint64_t{numbers[first + x / words]} * (m * m);
    if constexpr (P != 0) {
      out[first * words + x] = padded_word<P>(block, m, x % words);
    } else {
      out[first * words + x] = reinterpret_cast<const Word*>(block)[x % words];
    }
  }
}

template <class Word, std::uint32_t Words, std::uint32_t P = 0>
void gather(const BlocksView& blocks, const std::uint32_t* numbers, BlockShape shape, std::uint16_t* out,
            cudaStream_t stream) {
  const std::uint32_t words = shape.side * shape.side / static_cast<std::uint32_t>(sizeof(Word) / 2);
  const std::uint32_t blocks_per_cta = std::max(1u, kGatherWords / words);
  const auto grid = static_cast<unsigned>((blocks.count + blocks_per_cta - 1) / blocks_per_cta);
  gather_blocks<Word, Words, P><<<grid, kItemThreads, 0, stream>>>(blocks, numbers, shape.m, words, blocks_per_cta,
                                                                   reinterpret_cast<Word*>(out));
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

// Grid: one thread per split offset or look-back state.
// Work: clears the state; a binary search in a row of B, neighbouring threads in the same row.
// Memory: contiguous writes; scattered reads, the upper levels of which stay in cache.
__global__ void split_rows(CompressedView b, RowSplits splits, std::uint64_t* states, std::uint64_t num_states) {
  const std::uint64_t num_offsets = splits.offsets == nullptr ? 0 : splits.num_offsets(b);
  for_each_item(max(num_states, num_offsets), [=](std::uint64_t x) {
    if (x < num_states) states[x] = 0;
    if (x >= num_offsets) return;
    const auto row = static_cast<std::uint32_t>(x / (splits.num_chunks + 1));
    const auto chunk = static_cast<std::uint32_t>(x % (splits.num_chunks + 1));
    splits.offsets[x] = static_cast<std::uint32_t>(
        lower_bound(b.columns, b.offsets[row], b.offsets[row + 1], splits.first_column(chunk)));
  });
}

}  // namespace

std::size_t build_workspace_bytes(std::uint64_t count) {
  return std::max(sort_workspace_bytes<std::uint32_t>(count), select_workspace_bytes<OpensRow>(count));
}

void launch_compress_rows(const SortedKeysView& sorted, const CompressedArrays& to, std::uint32_t* num_rows,
                          unsigned long long* first_duplicate, Workspace work, cudaStream_t stream) {
  if (sorted.count == 0) return;
  const OpensRow opens{sorted.keys, sorted.key_bits};
  launch_select(opens, sorted.count, {.numbers = to.offsets, .count = num_rows}, work, stream, "row offsets");
  split_keys<<<item_grid(sorted.count), kItemThreads, 0, stream>>>(sorted, num_rows, to, first_duplicate);
  check_launch("split_keys");
}

void launch_swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits, cudaStream_t stream) {
  if (count == 0) return;
  swap_keys<<<item_grid(count), kItemThreads, 0, stream>>>(keys, count, key_bits);
  check_launch("swap_keys");
}

void launch_gather_blocks(const BlocksView& blocks, const std::uint32_t* numbers, BlockShape shape, std::uint16_t* out,
                          cudaStream_t stream) {
  if (blocks.count == 0) return;
  const std::uint32_t m = shape.m;
  if (shape.side != m) {
    for_padded_side(m, [&](auto side) {
      constexpr std::uint32_t kP = decltype(side)::value;
      gather<uint2, kP * kP / 4, kP>(blocks, numbers, shape, out, stream);
    });
  } else if (m == 4 || m == 8) {
    const auto launch = m == 4 ? gather<uint4, 2> : gather<uint4, 8>;
    launch(blocks, numbers, shape, out, stream);
  } else if (m % 2 == 0) {
    gather<uint2, 0>(blocks, numbers, shape, out, stream);
  } else {
    gather<std::uint16_t, 0>(blocks, numbers, shape, out, stream);
  }
  check_launch("gather_blocks");
}

void launch_split_rows(CompressedView b, const RowSplits& splits, std::uint64_t* states, std::uint64_t num_states,
                       cudaStream_t stream) {
  const std::uint64_t num_offsets = splits.offsets == nullptr ? 0 : splits.num_offsets(b);
  split_rows<<<item_grid(std::max(num_states, num_offsets)), kItemThreads, 0, stream>>>(b, splits, states, num_states);
  check_launch("split_rows");
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
