// Rows of A with few pairs: a CTA takes a window of whole rows and sorts their pairs by C block in shared memory.
// Shared by the kernel that lists them and by the one that multiplies them right away.
#pragma once

#include <cstdint>

#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/record_output.cuh"
#include "kernels/grid.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

inline constexpr std::uint32_t kWindowThreads = 256;
inline constexpr std::uint32_t kWindowCapacity = 1024;  // pairs of a CTA
static_assert(kShortRowPairs <= kWindowCapacity / 2 && kWindowCapacity <= CBlockFlags::kMaxCBlocks);

/// Rows of A and their pairs.
struct ShortRows {
  RowProduct product;
  PanelPairs panel;
  const std::uint32_t* names = nullptr;  // [rows of A], device: what Positions name a row by; null = its row index from
                                         // row_begin on
};

/// How a panel is cut into windows. Shapes: device.
struct Windows {
  std::uint32_t count = 0;
  const std::uint32_t* first_row =
      nullptr;                         // [count + 1]: first row of each, from row_begin on; the last one: num_rows
  std::uint64_t* look_back = nullptr;  // [count + 1], as RecordOutput has it; cleared
};

/// Windows advance by as many pairs as a CTA takes, less max_row_pairs: rows of a window begin within them, the last
/// one may end behind them. Shapes: work of short_rows_workspace_bytes().
Windows launch_find_windows(const ShortRows& rows, std::uint64_t max_row_pairs, Workspace work, cudaStream_t stream);

/// The rows of one CTA. Rows and blocks without pairs may be any number, pairs are less than the capacity.
struct Window {
  std::uint64_t begin_row;  // row indices of A
  std::uint64_t end_row;
  std::uint64_t begin_block;  // blocks of A
  std::uint64_t end_block;
  std::uint64_t first_pair;  // among all pairs of the product
  std::uint32_t num_pairs;

  __device__ Window(const ShortRows& rows, const std::uint32_t* first_row, std::uint32_t w)
      : begin_row(rows.panel.row_begin + std::uint64_t{first_row[w]}),
        end_row(rows.panel.row_begin + std::uint64_t{first_row[w + 1]}),
        begin_block(rows.product.a.index.offsets[begin_row]),
        end_block(rows.product.a.index.offsets[end_row]),
        first_pair(rows.product.pair_offsets[begin_block]),
        num_pairs(static_cast<std::uint32_t>(rows.product.pair_offsets[end_block] - first_pair)) {}
};

/// Pairs of a window by position, in shared memory. Starts: one bit per position, set where a block or row begins.
struct Positions {
  static constexpr std::uint32_t kWords = kWindowCapacity / 32;
  BlockPair pairs[kWindowCapacity];  // the pairs once sorted; before that, at the start of a block of A: its number,
                                     // and the block of B that position 0 would have
  std::uint32_t columns[kWindowCapacity];
  std::uint32_t rows[kWindowCapacity];  // at the start of a row: its name
  std::uint32_t block_starts[kWords];
  std::uint32_t row_starts[kWords];
};

/// Last start at or before x. Position 0 is a start.
__device__ inline std::uint32_t start_of(const std::uint32_t* starts, std::uint32_t x) {
  std::uint32_t w = x / 32;
  std::uint32_t word = starts[w] & ((2u << x % 32) - 1);
  while (word == 0) word = starts[--w];
  return w * 32 + 31 - __clz(static_cast<int>(word));
}

/// First start behind x, or num_pairs.
__device__ inline std::uint32_t end_of(const std::uint32_t* starts, std::uint32_t x, std::uint32_t num_pairs) {
  std::uint32_t w = x / 32;
  std::uint32_t word = starts[w] & ~((2u << x % 32) - 1);
  while (word == 0 && ++w * 32 < num_pairs) word = starts[w];
  return word == 0 ? num_pairs : w * 32 + __ffs(static_cast<int>(word)) - 1;
}

/// Marks where the pairs of A's block p begin, if it has any.
__device__ inline void mark_block(const RowProduct& product, const Window& window, std::uint64_t p, Positions& at) {
  const std::uint64_t begin = product.pair_offsets[p];
  const std::uint64_t end = product.pair_offsets[p + 1];
  const std::uint32_t b_row = product.b_row_index[p];
  if (begin == end) return;
  const auto x = static_cast<std::uint32_t>(begin - window.first_pair);
  at.pairs[x] = {.a = product.a.number(static_cast<std::uint32_t>(p)),
                 .b = product.b.index.offsets[b_row] - x};  // may wrap around: x is added again
  set_bit(at.block_starts, x);
}

/// Marks where the pairs of a row begin, if it has any.
__device__ inline void mark_row(const ShortRows& rows, const Window& window, std::uint64_t row, Positions& at) {
  const std::uint32_t* const offsets = rows.product.a.index.offsets + row;
  const std::uint64_t begin = rows.product.pair_offsets[offsets[0]];
  if (begin == rows.product.pair_offsets[offsets[1]]) return;
  const auto x = static_cast<std::uint32_t>(begin - window.first_pair);
  at.rows[x] = rows.names != nullptr ? rows.names[row] : static_cast<std::uint32_t>(row - rows.panel.row_begin);
  set_bit(at.row_starts, x);
}

/// Marks the starts of all blocks and rows that have pairs.
/// Threads: all of the CTA.
__device__ inline void mark_starts(const ShortRows& rows, const Window& window, Positions& at) {
  constexpr std::uint32_t kMaxBlocksRead = 4 * kWindowCapacity;  // of a window whose threads read every block of A
  const RowProduct& product = rows.product;
  const std::uint32_t* const offsets = product.a.index.offsets;
  if (window.end_block - window.begin_block <= kMaxBlocksRead) {  // no more rows than blocks
    for (std::uint64_t row = window.begin_row + threadIdx.x; row < window.end_row; row += kWindowThreads) {
      mark_row(rows, window, row, at);
    }
    for (std::uint64_t p = window.begin_block + threadIdx.x; p < window.end_block; p += kWindowThreads) {
      mark_block(product, window, p, at);
    }
    return;
  }
  // Nearly all blocks are without pairs: a search per pair finds the few others.
  for (std::uint32_t x = threadIdx.x; x < window.num_pairs; x += kWindowThreads) {
    const std::uint64_t pair = window.first_pair + x;
    const std::uint64_t p = upper_bound(product.pair_offsets, window.begin_block, window.end_block, pair) - 1;
    if (product.pair_offsets[p] != pair) continue;
    mark_block(product, window, p, at);
    const auto block = static_cast<std::uint32_t>(p);
    const std::uint64_t row = upper_bound(offsets, window.begin_row, window.end_row, block) - 1;
    if (product.pair_offsets[offsets[row]] == pair) mark_row(rows, window, row, at);
  }
}

/// Loads the pairs and sorts those of each row by column; stable. At the end at.pairs and at.columns are complete.
/// Work: rows are short, so that a pair's position is counted: the pairs of its row that come before it. Neighbouring
/// threads read the same columns.
/// Threads: all of the CTA, once starts are complete.
__device__ inline void sort_rows(const OperandView& b, std::uint32_t num_pairs, Positions& at) {
  constexpr std::uint32_t kItems = kWindowCapacity / kWindowThreads;
  BlockPair pairs[kItems] = {};
  std::uint32_t columns[kItems] = {};
  std::uint32_t positions[kItems] = {};
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {
    const std::uint32_t x = threadIdx.x + k * kWindowThreads;
    if (x >= num_pairs) continue;
    const BlockPair start = at.pairs[start_of(at.block_starts, x)];
    pairs[k] = {.a = start.a, .b = start.b + x};
  }
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {  // loads alone, so that all of them are in flight together
    if (threadIdx.x + k * kWindowThreads >= num_pairs) continue;
    columns[k] = b.index.columns[pairs[k].b];
    pairs[k].b = b.number(pairs[k].b);
  }
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {
    if (threadIdx.x + k * kWindowThreads < num_pairs) at.columns[threadIdx.x + k * kWindowThreads] = columns[k];
  }
  __syncthreads();  // all columns are written, and the starts of A's blocks in at.pairs have been read
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {
    const std::uint32_t x = threadIdx.x + k * kWindowThreads;
    if (x >= num_pairs) continue;
    const std::uint32_t begin = start_of(at.row_starts, x);
    const std::uint32_t end = end_of(at.row_starts, x, num_pairs);
    std::uint32_t position = begin;
#pragma unroll 4
    for (std::uint32_t y = begin; y < end; ++y) position += at.columns[y] < columns[k] + (y < x ? 1 : 0);
    at.pairs[position] = pairs[k];
    positions[k] = position;
  }
  __syncthreads();  // all threads have counted: columns may be overwritten
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {
    if (threadIdx.x + k * kWindowThreads < num_pairs) at.columns[positions[k]] = columns[k];
  }
  __syncthreads();  // columns are sorted
}

/// Sets a flag at the first pair of each C block.
/// Threads: all of the CTA, once pairs and columns are sorted.
__device__ inline void flag_c_blocks(const Positions& at, std::uint32_t num_pairs, CBlockFlags& flags) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t x = threadIdx.x; x - lane < num_pairs; x += kWindowThreads) {  // whole warps
    const bool opens =
        x < num_pairs && ((at.row_starts[x / 32] >> lane & 1) != 0 || at.columns[x] != at.columns[x - 1]);
    const std::uint32_t word = __ballot_sync(~0u, opens);
    if (lane == 0) flags.words[x / 32] = word;
  }
}

/// Takes the CTA's window, sorts its pairs and flags the first one of each C block; flags are complete at the end.
/// Threads: all of the CTA.
__device__ inline Window sort_window(const ShortRows& rows, const std::uint32_t* first_row, const RecordOutput& out,
                                     Positions& at, CBlockFlags& flags) {
  if (threadIdx.x == 0) flags.cta = take_cta_number(out);
  for (std::uint32_t w = threadIdx.x; w < Positions::kWords; w += kWindowThreads) {
    at.block_starts[w] = at.row_starts[w] = 0;
  }
  __syncthreads();  // flags.cta is written, starts are clear
  const Window window(rows, first_row, flags.cta);
  mark_starts(rows, window, at);
  __syncthreads();  // starts are complete
  sort_rows(rows.product.b, window.num_pairs, at);
  flag_c_blocks(at, window.num_pairs, flags);
  __syncthreads();  // flags are complete
  return window;
}

}  // namespace spmm::kernels
