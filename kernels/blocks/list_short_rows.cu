// The pair list of a panel of short rows: a CTA takes whole rows, sorts their pairs in shared memory and writes them
// once, where a sort of the whole panel moves every pair through memory several times.
#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kCapacity = 2048;  // pairs of a CTA: 33 KB, six CTAs per multiprocessor
constexpr std::uint32_t kItems = kCapacity / kThreads;
constexpr std::uint32_t kWords = kCapacity / 32;
constexpr std::uint32_t kMaxBlocksRead = 4 * kCapacity;  // of a window whose threads read every block of A
static_assert(kShortRowPairs <= kMaxShortRowPairs && kMaxShortRowPairs <= kCapacity / 2 &&
              kCapacity <= CBlockFlags::kMaxCBlocks && kThreads % 32 == 0);

/// Rows of A and their pairs.
struct ShortRows {
  ExpandView view;
  PanelPairs panel;
};

/// Pairs that a window advances by. Its rows begin within that many pairs, the last one may end behind them.
std::uint32_t window_pairs(std::uint64_t max_row_pairs) {
  return kCapacity - static_cast<std::uint32_t>(max_row_pairs);
}

std::uint64_t num_windows(std::uint64_t num_pairs, std::uint64_t max_row_pairs) {
  return num_pairs / window_pairs(max_row_pairs) + 1;
}

// Grid: one thread per row and one more.
// Work: each row opens the windows that begin behind the start of the row before and not behind its own.
// Memory: scattered reads of the pair offsets, a row's and the next one's mostly in one sector.
__global__ void find_windows(ShortRows rows, std::uint32_t pairs_per_window, std::uint32_t num_windows,
                             std::uint32_t* first_row) {
  const PanelPairs& panel = rows.panel;
  for_each_item(std::uint64_t{panel.num_rows} + 1, [=](std::uint64_t x) {
    const auto row = static_cast<std::uint32_t>(x);
    const auto window_of = [&](std::uint32_t r) {
      const std::uint64_t start = rows.view.pair_offsets[rows.view.a.offsets[panel.row_begin + std::uint64_t{r}]];
      return static_cast<std::uint32_t>(start - panel.first_pair) / pairs_per_window;
    };
    const std::uint32_t last = row == panel.num_rows ? num_windows : window_of(row);
    for (std::uint32_t w = row == 0 ? 0 : window_of(row - 1) + 1; w <= last; ++w) first_row[w] = row;
  });
}

/// The rows of one CTA. Rows and blocks without pairs may be any number, pairs are less than kCapacity.
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
        begin_block(rows.view.a.offsets[begin_row]),
        end_block(rows.view.a.offsets[end_row]),
        first_pair(rows.view.pair_offsets[begin_block]),
        num_pairs(static_cast<std::uint32_t>(rows.view.pair_offsets[end_block] - first_pair)) {}
};

/// Pairs of a window by position, in shared memory. Starts: one bit per position, set where a block or row begins.
struct Positions {
  BlockPair pairs[kCapacity];  // the pairs once sorted; before that, at the start of a block of A: its number, and the
                               // block of B that position 0 would have
  std::uint32_t columns[kCapacity];
  std::uint32_t rows[kCapacity];  // at the start of a row: its row index from row_begin on
  std::uint32_t block_starts[kWords];
  std::uint32_t row_starts[kWords];
};

__device__ inline void set_bit(std::uint32_t* words, std::uint32_t x) {
  atomicOr(&words[x / 32], 1u << x % 32);  // other threads set bits of the same word
}

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
__device__ inline void mark_block(const ExpandView& view, const Window& window, std::uint64_t p, Positions& at) {
  const std::uint64_t begin = view.pair_offsets[p];
  const std::uint64_t end = view.pair_offsets[p + 1];
  const std::uint32_t b_row = view.b_row_index[p];
  if (begin == end) return;
  const auto x = static_cast<std::uint32_t>(begin - window.first_pair);
  at.pairs[x] = {.a = view.a_numbers == nullptr ? static_cast<std::uint32_t>(p) : view.a_numbers[p],
                 .b = view.b_rows.offsets[b_row] - x};  // may wrap around: x is added again
  set_bit(at.block_starts, x);
}

/// Marks where the pairs of a row begin, if it has any.
__device__ inline void mark_row(const ShortRows& rows, const Window& window, std::uint64_t row, Positions& at) {
  const std::uint64_t begin = rows.view.pair_offsets[rows.view.a.offsets[row]];
  if (begin == rows.view.pair_offsets[rows.view.a.offsets[row + 1]]) return;
  const auto x = static_cast<std::uint32_t>(begin - window.first_pair);
  at.rows[x] = static_cast<std::uint32_t>(row - rows.panel.row_begin);
  set_bit(at.row_starts, x);
}

/// Marks the starts of all blocks and rows that have pairs.
/// Threads: all of the CTA.
__device__ inline void mark_starts(const ShortRows& rows, const Window& window, Positions& at) {
  const ExpandView& view = rows.view;
  if (window.end_block - window.begin_block <= kMaxBlocksRead) {  // no more rows than blocks
    for (std::uint64_t row = window.begin_row + threadIdx.x; row < window.end_row; row += kThreads) {
      mark_row(rows, window, row, at);
    }
    for (std::uint64_t p = window.begin_block + threadIdx.x; p < window.end_block; p += kThreads) {
      mark_block(view, window, p, at);
    }
    return;
  }
  // Nearly all blocks are without pairs: a search per pair finds the few others.
  for (std::uint32_t x = threadIdx.x; x < window.num_pairs; x += kThreads) {
    const std::uint64_t pair = window.first_pair + x;
    const std::uint64_t p = upper_bound(view.pair_offsets, window.begin_block, window.end_block, pair) - 1;
    if (view.pair_offsets[p] != pair) continue;
    mark_block(view, window, p, at);
    const auto block = static_cast<std::uint32_t>(p);
    const std::uint64_t row = upper_bound(view.a.offsets, window.begin_row, window.end_row, block) - 1;
    if (view.pair_offsets[view.a.offsets[row]] == pair) mark_row(rows, window, row, at);
  }
}

/// Loads the pairs and sorts those of each row by column; stable. At the end at.pairs and at.columns are complete.
/// Work: rows are short, so that a pair's position is counted: the pairs of its row that come before it. Neighbouring
/// threads read the same columns.
/// Threads: all of the CTA, once starts are complete.
__device__ inline void sort_rows(const ExpandView& view, std::uint32_t num_pairs, Positions& at) {
  BlockPair pairs[kItems] = {};
  std::uint32_t columns[kItems] = {};
  std::uint32_t positions[kItems] = {};
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {
    const std::uint32_t x = threadIdx.x + k * kThreads;
    if (x >= num_pairs) continue;
    const BlockPair start = at.pairs[start_of(at.block_starts, x)];
    pairs[k] = {.a = start.a, .b = start.b + x};
  }
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {  // loads alone, so that all of them are in flight together
    if (threadIdx.x + k * kThreads >= num_pairs) continue;
    const std::uint32_t b = pairs[k].b;
    columns[k] = view.b_rows.columns[b];
    if (view.b_numbers != nullptr) pairs[k].b = view.b_numbers[b];
  }
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {
    if (threadIdx.x + k * kThreads < num_pairs) at.columns[threadIdx.x + k * kThreads] = columns[k];
  }
  __syncthreads();  // all columns are written, and the starts of A's blocks in at.pairs have been read
#pragma unroll
  for (std::uint32_t k = 0; k < kItems; ++k) {
    const std::uint32_t x = threadIdx.x + k * kThreads;
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
    if (threadIdx.x + k * kThreads < num_pairs) at.columns[positions[k]] = columns[k];
  }
  __syncthreads();  // columns are sorted
}

/// Where the list goes.
struct ListOutput {
  BlockPair* pairs;             // [num_pairs]
  std::uint64_t* c_block_keys;  // [num_pairs]
  std::uint32_t* offsets;       // [num_pairs + 1]
  std::uint32_t* host_num_c_blocks;
};

/// Writes the window's sorted pairs, and sets a flag at the first pair of each C block.
/// Threads: all of the CTA, once pairs and columns are sorted.
__device__ inline void write_pairs(const Positions& at, std::uint32_t num_pairs, BlockPair* pairs, CBlockFlags& flags) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t x = threadIdx.x; x - lane < num_pairs; x += kThreads) {  // whole warps
    const bool opens =
        x < num_pairs && ((at.row_starts[x / 32] >> lane & 1) != 0 || at.columns[x] != at.columns[x - 1]);
    const std::uint32_t word = __ballot_sync(~0u, opens);
    if (lane == 0) flags.words[x / 32] = word;
    if (x < num_pairs) pairs[x] = at.pairs[x];
  }
}

// Grid: one CTA per window of rows; windows are handed out in row order as CTAs start.
// Work: the CTA marks at which position each row and each block of A begins, loads the block of B and the column of
//       every position, sorts within rows and flags the first pair of each C block. The number of C blocks of the CTAs
//       before it comes by look-back.
// Memory: neighbouring pairs of one block of A read neighbouring blocks of B's row; pairs are sorted in shared memory
//         and written contiguously, once. Five CTAs per multiprocessor: with six, registers would spill.
__global__ void __launch_bounds__(kThreads, kResidentThreads / kThreads - 1)
    list_short_rows(ShortRows rows, const std::uint32_t* first_row, ListOutput out, RecordOutput c_blocks) {
  __shared__ Positions at;
  __shared__ CBlockFlags flags;  // a bit per position: the first pair of a C block
  const std::uint32_t lane = threadIdx.x % 32;
  if (threadIdx.x == 0) flags.cta = take_cta_number(c_blocks);
  for (std::uint32_t w = threadIdx.x; w < kWords; w += kThreads) at.block_starts[w] = at.row_starts[w] = 0;
  __syncthreads();  // flags.cta is written, starts are clear
  const Window window(rows, first_row, flags.cta);
  const std::uint32_t num_pairs = window.num_pairs;
  const auto first = static_cast<std::uint32_t>(window.first_pair - rows.panel.first_pair);
  mark_starts(rows, window, at);
  __syncthreads();  // starts are complete
  sort_rows(rows.view, num_pairs, at);
  write_pairs(at, num_pairs, out.pairs + first, flags);
  __syncthreads();  // flags are complete
  if (threadIdx.x < 32) find_output_offset(flags, num_pairs, c_blocks, gridDim.x);
  __syncthreads();  // flags.first is written
  for (std::uint32_t x = threadIdx.x; x < num_pairs; x += kThreads) {
    const std::uint32_t word = flags.words[x / 32];
    if ((word >> lane & 1) == 0) continue;
    const std::uint32_t c_block = flags.first + flags.before[x / 32] + __popc(word & ((1u << lane) - 1));
    const std::uint64_t row = at.rows[start_of(at.row_starts, x)];
    out.c_block_keys[c_block] = row << rows.panel.column_bits | at.columns[x];
    out.offsets[c_block] = first + x;
  }
  if (threadIdx.x == 0 && flags.cta + 1 == gridDim.x) {
    const std::uint32_t num_c_blocks = flags.first + flags.count;
    out.offsets[num_c_blocks] = static_cast<std::uint32_t>(rows.panel.num_pairs);
    *out.host_num_c_blocks = num_c_blocks;
  }
}

}  // namespace

std::size_t list_short_rows_workspace_bytes(std::uint64_t num_pairs, std::uint64_t max_row_pairs) {
  return (num_windows(num_pairs, max_row_pairs) + 1) * (sizeof(std::uint64_t) + sizeof(std::uint32_t));
}

void launch_list_short_rows(const ExpandView& view, const PanelPairs& panel, std::uint64_t max_row_pairs,
                            PairListBuffers& buffers, Workspace work, cudaStream_t stream) {
  const auto windows = static_cast<std::uint32_t>(num_windows(panel.num_pairs, max_row_pairs));
  const std::size_t num_states = std::size_t{windows} + 1;
  auto* const states = static_cast<std::uint64_t*>(work.data);                    // [num_states]
  auto* const first_row = reinterpret_cast<std::uint32_t*>(states + num_states);  // [windows + 1]
  const ShortRows rows{.view = view, .panel = panel};
  check(cudaMemsetAsync(states, 0, num_states * sizeof(std::uint64_t), stream), "clear look-back states");
  find_windows<<<item_grid(std::uint64_t{panel.num_rows} + 1), kItemThreads, 0, stream>>>(
      rows, window_pairs(max_row_pairs), windows, first_row);
  check_launch("find_windows");
  const ListOutput out{.pairs = buffers.pairs.front(),
                       .c_block_keys = buffers.c_block_keys,
                       .offsets = buffers.offsets,
                       .host_num_c_blocks = buffers.host_num_c_blocks};
  const RecordOutput c_blocks{
      .records = nullptr, .rows = nullptr, .look_back = states, .num_blocks = buffers.num_c_blocks};
  list_short_rows<<<windows, kThreads, 0, stream>>>(rows, first_row, out, c_blocks);
  check_launch("list_short_rows");
}

}  // namespace spmm::kernels
