// The C blocks of a panel that have pairs, each with their list, by ESC's first phases: every pair is expanded to the
// key of its C block, pairs are sorted by key, and keys compressed to one of each.
#include <algorithm>
#include <bit>

#include "kernels/blocks/launch.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/items.cuh"

namespace spmm::kernels {

std::size_t list_pairs_workspace_bytes(std::uint64_t max_pairs) {
  return std::max(sort_workspace_bytes<BlockPair>(max_pairs), select_workspace_bytes(max_pairs));
}

void launch_list_pairs(const RowProduct& product, const PanelPairs& panel, PairListBuffers& buffers, Workspace work,
                       cudaStream_t stream) {
  const std::uint64_t count = panel.num_pairs;
  std::uint64_t* const expanded = buffers.keys.front();
  BlockPair* const pairs = buffers.pairs.front();
  // A pair finds its block of A by binary search, so that long and short rows of B cost the same. Neighbouring pairs of
  // one block of A read neighbouring blocks of B's row.
  launch_items(count, stream, "expand_pairs", [=] __device__(std::uint64_t x) {
    const std::uint32_t* const offsets = product.a.index.offsets;
    const std::uint64_t row_end = panel.row_begin + std::uint64_t{panel.num_rows};
    const std::uint64_t pair = panel.first_pair + x;
    const std::uint64_t p = upper_bound(product.pair_offsets, offsets[panel.row_begin], offsets[row_end], pair) - 1;
    const auto within = static_cast<std::uint32_t>(pair - product.pair_offsets[p]);
    const std::uint32_t b = product.b.index.offsets[product.b_row_index[p]] + within;
    const auto block = static_cast<std::uint32_t>(p);
    const std::uint64_t row = upper_bound(offsets, panel.row_begin, row_end, block) - 1 - panel.row_begin;
    expanded[x] = row << panel.column_bits | product.b.index.columns[b];
    pairs[x] = {.a = product.a.number(block), .b = product.b.number(b)};
  });
  const auto row_bits = static_cast<unsigned>(std::bit_width(panel.num_rows - 1));
  launch_sort(buffers.keys, buffers.pairs, count, panel.column_bits + row_bits, work, stream);
  const std::uint64_t* const keys = buffers.keys.front();
  launch_select({keys, 0}, count, buffers.offsets, buffers.num_c_blocks, work, stream);
  // C block x has the key of its first pair; the offset behind the last one closes the list.
  launch_items(count + 1, stream, "take_c_block_keys", [=, to = buffers] __device__(std::uint64_t x) {
    const std::uint32_t num_c_blocks = *to.num_c_blocks;
    if (x < num_c_blocks) to.c_block_keys[x] = keys[to.offsets[x]];
    if (x != num_c_blocks) return;
    to.offsets[x] = static_cast<std::uint32_t>(count);
    *to.host_num_c_blocks = num_c_blocks;
  });
}

}  // namespace spmm::kernels
