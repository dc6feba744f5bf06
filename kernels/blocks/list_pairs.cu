// The C blocks of a panel that have pairs, each with their list, by ESC's first phases: every pair is expanded to the
// key of its C block, pairs are sorted by key, and keys compressed to one of each.
#include <algorithm>
#include <bit>

#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per pair of the panel.
// Work: finds its block of A by binary search in the pair offsets, so that long and short rows of B cost the same.
// Memory: neighbouring pairs of one block of A read neighbouring blocks of B's row; keys are written contiguously.
__global__ void expand_pairs(ExpandView view, PanelPairs panel, std::uint64_t* keys, BlockPair* pairs) {
  for_each_item(panel.num_pairs, [=](std::uint64_t x) {
    const std::uint64_t begin = view.a.offsets[panel.row_begin];
    const std::uint64_t end = view.a.offsets[panel.row_begin + panel.num_rows];
    const std::uint64_t p = upper_bound(view.pair_offsets, begin, end, panel.first_pair + x) - 1;
    const std::uint64_t within = panel.first_pair + x - view.pair_offsets[p];
    const std::uint32_t b = view.b_rows.offsets[view.b_row_index[p]] + static_cast<std::uint32_t>(within);
    const std::uint64_t row_end = panel.row_begin + std::uint64_t{panel.num_rows};
    const auto block = static_cast<std::uint32_t>(p);
    const std::uint64_t row = upper_bound(view.a.offsets, panel.row_begin, row_end, block) - 1 - panel.row_begin;
    keys[x] = row << panel.column_bits | view.b_rows.columns[b];
    pairs[x] = {.a = view.a_numbers == nullptr ? static_cast<std::uint32_t>(p) : view.a_numbers[p],
                .b = view.b_numbers == nullptr ? b : view.b_numbers[b]};
  });
}

// Grid: one thread per C block and one more, for as many as there are pairs.
// Work: C block x -> key of its first pair; the last thread writes the closing offset.
// Memory: contiguous writes; a scattered read of 8 bytes per C block.
__global__ void take_c_block_keys(const std::uint64_t* keys, std::uint64_t num_pairs, PairListBuffers buffers) {
  const std::uint32_t num_c_blocks = *buffers.num_c_blocks;
  if (blockIdx.x == 0 && threadIdx.x == 0) *buffers.host_num_c_blocks = num_c_blocks;
  for_each_item(std::uint64_t{num_c_blocks} + 1, [=](std::uint64_t x) {
    if (x == num_c_blocks) {
      buffers.offsets[x] = static_cast<std::uint32_t>(num_pairs);
    } else {
      buffers.c_block_keys[x] = keys[buffers.offsets[x]];
    }
  });
}

}  // namespace

std::size_t list_pairs_workspace_bytes(std::uint64_t max_pairs) {
  return std::max(sort_workspace_bytes<BlockPair>(max_pairs), select_workspace_bytes<OpensRow>(max_pairs));
}

void launch_list_pairs(const ExpandView& view, const PanelPairs& panel, PairListBuffers& buffers, Workspace work,
                       cudaStream_t stream) {
  const std::uint64_t count = panel.num_pairs;
  expand_pairs<<<item_grid(count), kItemThreads, 0, stream>>>(view, panel, buffers.keys.front(), buffers.pairs.front());
  check_launch("expand_pairs");
  const auto row_bits = static_cast<unsigned>(std::bit_width(panel.num_rows - 1));
  launch_sort(buffers.keys, buffers.pairs, count, panel.column_bits + row_bits, work, stream);
  const OpensRow opens{buffers.keys.front(), 0};
  launch_select(opens, count, {.numbers = buffers.offsets, .count = buffers.num_c_blocks}, work, stream, "C blocks");
  take_c_block_keys<<<item_grid(count), kItemThreads, 0, stream>>>(buffers.keys.front(), count, buffers);
  check_launch("take_c_block_keys");
}

}  // namespace spmm::kernels
