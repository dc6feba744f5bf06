// The pair list of a panel of short rows: a CTA takes whole rows, sorts their pairs in shared memory and writes them
// once, where a sort of the whole panel moves every pair through memory several times.
#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/record_output.cuh"
#include "kernels/blocks/short_rows.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/tuning.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kCapacity = 2048;  // pairs of a CTA: 33 KB, six CTAs per multiprocessor
using ListPositions = Positions<kCapacity>;
static_assert(kShortRowPairs <= kMaxShortRowPairs && kMaxShortRowPairs <= kCapacity / 2 &&
              kCapacity <= CBlockFlags::kMaxCBlocks && kThreads % 32 == 0);

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

/// Where the list goes.
struct ListOutput {
  BlockPair* pairs;             // [num_pairs]
  std::uint64_t* c_block_keys;  // [num_pairs]
  std::uint32_t* offsets;       // [num_pairs + 1]
  std::uint32_t* host_num_c_blocks;
};

/// Writes the window's sorted pairs, and sets a flag at the first pair of each C block.
/// Threads: all of the CTA, once pairs and columns are sorted.
__device__ inline void write_pairs(const ListPositions& at, std::uint32_t num_pairs, BlockPair* pairs,
                                   CBlockFlags& flags) {
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
  __shared__ ListPositions at;
  __shared__ CBlockFlags flags;  // a bit per position: the first pair of a C block
  const std::uint32_t lane = threadIdx.x % 32;
  if (threadIdx.x == 0) flags.cta = take_cta_number(c_blocks);
  for (std::uint32_t w = threadIdx.x; w < ListPositions::kWords; w += kThreads)
    at.block_starts[w] = at.row_starts[w] = 0;
  __syncthreads();  // flags.cta is written, starts are clear
  const Window window(rows, first_row, flags.cta);
  const std::uint32_t num_pairs = window.num_pairs;
  const auto first = static_cast<std::uint32_t>(window.first_pair - rows.panel.first_pair);
  mark_starts<kThreads>(rows, window, at);
  __syncthreads();  // starts are complete
  sort_rows<kThreads>(rows.view, num_pairs, at);
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
  const std::uint32_t windows = num_windows({.num_pairs = num_pairs}, window_pairs(kCapacity, max_row_pairs));
  return (windows + std::size_t{1}) * (sizeof(std::uint64_t) + sizeof(std::uint32_t));
}

void launch_find_windows(const ShortRows& rows, std::uint32_t pairs_per_window, std::uint32_t* first_row,
                         cudaStream_t stream) {
  find_windows<<<item_grid(std::uint64_t{rows.panel.num_rows} + 1), kItemThreads, 0, stream>>>(
      rows, pairs_per_window, num_windows(rows.panel, pairs_per_window), first_row);
  check_launch("find_windows");
}

void launch_list_short_rows(const ExpandView& view, const PanelPairs& panel, std::uint64_t max_row_pairs,
                            PairListBuffers& buffers, Workspace work, cudaStream_t stream) {
  const std::uint32_t pairs_per_window = window_pairs(kCapacity, max_row_pairs);
  const std::uint32_t windows = num_windows(panel, pairs_per_window);
  const std::size_t num_states = std::size_t{windows} + 1;
  auto* const states = static_cast<std::uint64_t*>(work.data);                    // [num_states]
  auto* const first_row = reinterpret_cast<std::uint32_t*>(states + num_states);  // [windows + 1]
  const ShortRows rows{.view = view, .panel = panel};
  check(cudaMemsetAsync(states, 0, num_states * sizeof(std::uint64_t), stream), "clear look-back states");
  launch_find_windows(rows, pairs_per_window, first_row, stream);
  const ListOutput out{.pairs = buffers.pairs.front(),
                       .c_block_keys = buffers.c_block_keys,
                       .offsets = buffers.offsets,
                       .host_num_c_blocks = buffers.host_num_c_blocks};
  const RecordOutput c_blocks{.look_back = states, .num_blocks = buffers.num_c_blocks};
  list_short_rows<<<windows, kThreads, 0, stream>>>(rows, first_row, out, c_blocks);
  check_launch("list_short_rows");
}

}  // namespace spmm::kernels
