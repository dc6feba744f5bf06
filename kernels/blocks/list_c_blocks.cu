// The C blocks of a panel that have pairs, by ESC's first phases: every pair is expanded to the key of its C block,
// keys are sorted and compressed to one of each; with or without the list of pairs of each C block.
#include <algorithm>

#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

/// Row index of A's block p.
__device__ std::uint32_t row_index_of(const CompressedView& a, const PanelPairs& panel, std::uint64_t p) {
  const auto block = static_cast<std::uint32_t>(p);
  const std::uint64_t row_end = panel.row_begin + std::uint64_t{panel.num_rows};
  return static_cast<std::uint32_t>(upper_bound(a.offsets, panel.row_begin, row_end, block) - 1);
}

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
    const std::uint64_t row = row_index_of(view.a, panel, p) - panel.row_begin;
    keys[x] = row << panel.column_bits | view.b_rows.columns[b];
    if (pairs != nullptr) {
      pairs[x] = {.a = view.a_numbers == nullptr ? static_cast<std::uint32_t>(p) : view.a_numbers[p],
                  .b = view.b_numbers == nullptr ? b : view.b_numbers[b]};
    }
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

/// Bits that numbers below `count` need.
unsigned bits_for(std::uint64_t count) {
  unsigned bits = 1;
  while (bits < 64 && (count - 1) >> bits != 0) ++bits;
  return bits;
}

}  // namespace

std::size_t list_c_blocks_workspace_bytes(std::uint64_t max_pairs) {
  return std::max(sort_keys_workspace_bytes(max_pairs), unique_workspace_bytes(max_pairs));
}

void launch_list_c_blocks(const ExpandView& view, const PanelPairs& panel, CBlockListBuffers& buffers, Workspace work,
                          cudaStream_t stream) {
  SortBuffers<std::uint64_t>& keys = buffers.keys;
  expand_pairs<<<item_grid(panel.num_pairs), kItemThreads, 0, stream>>>(view, panel, keys.front(), nullptr);
  check_launch("expand_pairs");
  launch_sort_keys(keys, panel.num_pairs, {.end = panel.column_bits + bits_for(panel.num_rows)}, work, stream);
  launch_unique(keys.front(), panel.num_pairs, buffers.c_block_keys, buffers.num_c_blocks, work, stream);
}

std::size_t list_pairs_workspace_bytes(std::uint64_t max_pairs) {
  return std::max(sort_workspace_bytes<BlockPair>(max_pairs), select_workspace_bytes<OpensCBlock>(max_pairs));
}

void launch_list_pairs(const ExpandView& view, const PanelPairs& panel, PairListBuffers& buffers, Workspace work,
                       cudaStream_t stream) {
  const std::uint64_t count = panel.num_pairs;
  expand_pairs<<<item_grid(count), kItemThreads, 0, stream>>>(view, panel, buffers.keys.front(), buffers.pairs.front());
  check_launch("expand_pairs");
  const KeyBits bits{.end = panel.column_bits + bits_for(panel.num_rows)};
  launch_sort(buffers.keys, buffers.pairs, count, bits, work, stream);
  const OpensCBlock opens{buffers.keys.front()};
  launch_select(opens, count, {.numbers = buffers.offsets, .count = buffers.num_c_blocks}, work, stream, "C blocks");
  take_c_block_keys<<<item_grid(count), kItemThreads, 0, stream>>>(buffers.keys.front(), count, buffers);
  check_launch("take_c_block_keys");
}

}  // namespace spmm::kernels
