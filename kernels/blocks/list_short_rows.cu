// The pair list of a panel of short rows: a CTA takes whole rows, sorts their pairs in shared memory and writes them
// once, where a sort of the whole panel moves every pair through memory several times.
#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/short_rows.cuh"
#include "kernels/check.hpp"
#include "kernels/items.cuh"

namespace spmm::kernels {
namespace {

std::uint32_t window_pairs(std::uint64_t max_row_pairs) {
  return kWindowCapacity - static_cast<std::uint32_t>(max_row_pairs);
}

std::uint32_t num_windows(std::uint64_t num_pairs, std::uint64_t max_row_pairs) {
  return static_cast<std::uint32_t>(num_pairs / window_pairs(max_row_pairs) + 1);
}

// Grid: one CTA per window of rows; windows are handed out in row order as CTAs start.
// Work: the CTA marks at which position each row and each block of A begins, loads the block of B and the column of
//       every position, sorts within rows and flags the first pair of each C block. The number of C blocks of the CTAs
//       before it comes by look-back.
// Memory: neighbouring pairs of one block of A read neighbouring blocks of B's row; pairs are sorted in shared memory
//         and written contiguously, once. Five CTAs per multiprocessor: with six, registers would spill.
__global__ void __launch_bounds__(kWindowThreads, kResidentThreads / kWindowThreads - 1)
    list_short_rows(ShortRows rows, const std::uint32_t* first_row, BlockPair* pairs, PairListBuffers out,
                    RecordOutput c_blocks) {
  __shared__ Positions at;
  __shared__ CBlockFlags flags;  // a bit per position: the first pair of a C block
  const std::uint32_t lane = threadIdx.x % 32;
  const Window window = sort_window(rows, first_row, c_blocks, at, flags);
  const std::uint32_t num_pairs = window.num_pairs;
  const auto first = static_cast<std::uint32_t>(window.first_pair - rows.panel.first_pair);
  for (std::uint32_t x = threadIdx.x; x < num_pairs; x += kWindowThreads) pairs[first + x] = at.pairs[x];
  if (threadIdx.x < 32) find_output_offset(flags, num_pairs, c_blocks, gridDim.x);
  __syncthreads();  // flags.first is written
  for (std::uint32_t x = threadIdx.x; x < num_pairs; x += kWindowThreads) {
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

std::size_t short_rows_workspace_bytes(std::uint64_t num_pairs, std::uint64_t max_row_pairs) {
  return (num_windows(num_pairs, max_row_pairs) + std::size_t{1}) * (sizeof(std::uint64_t) + sizeof(std::uint32_t));
}

Windows launch_find_windows(const ShortRows& rows, std::uint64_t max_row_pairs, Workspace work, cudaStream_t stream) {
  const std::uint32_t count = num_windows(rows.panel.num_pairs, max_row_pairs);
  const std::size_t num_states = std::size_t{count} + 1;
  auto* const look_back = static_cast<std::uint64_t*>(work.data);
  auto* const first_row = reinterpret_cast<std::uint32_t*>(look_back + num_states);
  check(cudaMemsetAsync(look_back, 0, num_states * sizeof(std::uint64_t), stream), "clear look-back states");
  const std::uint32_t pairs_per_window = window_pairs(max_row_pairs);
  // A row opens the windows that begin behind the start of the row before and not behind its own. A row's pair offset
  // and the next one's are mostly in one sector.
  launch_items(std::uint64_t{rows.panel.num_rows} + 1, stream, "find_windows", [=] __device__(std::uint64_t x) {
    const PanelPairs& panel = rows.panel;
    const auto row = static_cast<std::uint32_t>(x);
    const auto window_of = [&](std::uint32_t r) {
      const std::uint32_t block = rows.product.a.index.offsets[panel.row_begin + std::uint64_t{r}];
      return static_cast<std::uint32_t>(rows.product.pair_offsets[block] - panel.first_pair) / pairs_per_window;
    };
    const std::uint32_t last = row == panel.num_rows ? count : window_of(row);
    for (std::uint32_t w = row == 0 ? 0 : window_of(row - 1) + 1; w <= last; ++w) first_row[w] = row;
  });
  return {.count = count, .first_row = first_row, .look_back = look_back};
}

void launch_list_short_rows(const RowProduct& product, const PanelPairs& panel, std::uint64_t max_row_pairs,
                            PairListBuffers& buffers, Workspace work, cudaStream_t stream) {
  const ShortRows rows{.product = product, .panel = panel};
  const Windows windows = launch_find_windows(rows, max_row_pairs, work, stream);
  const RecordOutput c_blocks{.look_back = windows.look_back, .num_blocks = buffers.num_c_blocks};
  list_short_rows<<<windows.count, kWindowThreads, 0, stream>>>(rows, windows.first_row, buffers.pairs.front(), buffers,
                                                                c_blocks);
  check_launch("list_short_rows");
}

}  // namespace spmm::kernels
