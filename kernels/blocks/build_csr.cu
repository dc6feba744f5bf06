// Keys and elements in file order -> compressed rows (DCSR, DCSC) with blocks in row order.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/items.cuh"
#include "kernels/row_segments.cuh"

namespace spmm::kernels {
namespace {

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

}  // namespace

std::size_t build_workspace_bytes(std::uint64_t count) {
  return std::max(sort_workspace_bytes<std::uint32_t>(count), select_workspace_bytes(count));
}

void launch_compress_rows(const SortedKeysView& sorted, const CompressedArrays& to, std::uint32_t* num_rows,
                          unsigned long long* first_duplicate, Workspace work, cudaStream_t stream) {
  if (sorted.count == 0) return;
  launch_select({sorted.keys, sorted.key_bits}, sorted.count, to.offsets, num_rows, work, stream);
  // The block column of a key, and whether the one before is the same; the block row of row index x, from its first
  // key.
  launch_items(sorted.count, stream, "split_keys", [=] __device__(std::uint64_t x) {
    const std::uint32_t rows = *num_rows;
    const std::uint64_t key = sorted.keys[x];
    to.columns[x] = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << sorted.key_bits) - 1));
    if (x > 0 && key == sorted.keys[x - 1]) {
      atomicMin(first_duplicate, static_cast<unsigned long long>(x));  // the first one is reported; bad files only
    }
    if (x < rows) to.rows[x] = static_cast<std::uint32_t>(sorted.keys[to.offsets[x]] >> sorted.key_bits);
    if (x == 0) to.offsets[rows] = static_cast<std::uint32_t>(sorted.count);
  });
}

void launch_swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits, cudaStream_t stream) {
  launch_items(count, stream, "swap_keys", [=] __device__(std::uint64_t x) {
    keys[x] = (keys[x] & ((std::uint64_t{1} << key_bits) - 1)) << key_bits | keys[x] >> key_bits;
  });
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
  // Neighbouring threads search in the same row of B.
  launch_items(std::max(num_states, num_offsets), stream, "split_rows", [=] __device__(std::uint64_t x) {
    if (x < num_states) states[x] = 0;
    if (x >= num_offsets) return;
    const auto row = static_cast<std::uint32_t>(x / (splits.num_chunks + 1));
    const auto chunk = static_cast<std::uint32_t>(x % (splits.num_chunks + 1));
    splits.offsets[x] = static_cast<std::uint32_t>(
        lower_bound(b.columns, b.offsets[row], b.offsets[row + 1], splits.first_column(chunk)));
  });
}

void launch_compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count, std::uint32_t* out,
                    cudaStream_t stream) {
  launch_items(count, stream, "compose", [=] __device__(std::uint64_t x) { out[x] = outer[inner[x]]; });
}

void launch_find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index,
                           std::span<std::uint32_t> table, std::uint32_t* row_index, cudaStream_t stream) {
  if (!table.empty()) {
    static_assert(kNoRow == 0xFFFF'FFFFu);  // all bytes alike
    check(cudaMemsetAsync(table.data(), 0xFF, table.size_bytes(), stream), "clear row table");
    std::uint32_t* const rows = table.data();
    launch_items(index.num_rows, stream, "fill_row_table",
                 [=] __device__(std::uint64_t x) { rows[index.rows[x]] = static_cast<std::uint32_t>(x); });
    return launch_compose(rows, wanted, count, row_index, stream);
  }
  // The upper levels of the searches stay in cache.
  launch_items(count, stream, "find_row_index", [=] __device__(std::uint64_t x) {
    const std::uint32_t row = wanted[x];
    const std::uint64_t found = lower_bound(index.rows, 0, index.num_rows, row);
    row_index[x] = found < index.num_rows && index.rows[found] == row ? static_cast<std::uint32_t>(found) : kNoRow;
  });
}

}  // namespace spmm::kernels
