// The C blocks of a panel that have pairs, by ESC's first phases: every pair is expanded to the key of its C block,
// keys are sorted and compressed to one of each; with or without the list of pairs of each C block.
#include <algorithm>

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
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

/// 1 where a sorted key differs from the one before.
struct OpensCBlock {
  const std::uint64_t* keys;
  __host__ __device__ bool operator()(std::uint64_t x) const { return x == 0 || keys[x] != keys[x - 1]; }
};

auto opens_c_block_flags(const std::uint64_t* keys) {
  return thrust::make_transform_iterator(thrust::counting_iterator<std::uint64_t>(0), OpensCBlock{keys});
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
  std::size_t sort = 0;
  std::size_t unique = 0;
  cub::DoubleBuffer<std::uint64_t> keys;
  check(cub::DeviceRadixSort::SortKeys(nullptr, sort, keys, max_pairs), "listing workspace");
  check(cub::DeviceSelect::Unique(nullptr, unique, static_cast<std::uint64_t*>(nullptr),
                                  static_cast<std::uint64_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
                                  static_cast<std::int64_t>(max_pairs)),
        "listing workspace");
  return std::max(sort, unique);
}

void launch_list_c_blocks(const ExpandView& view, const PanelPairs& panel, CBlockListBuffers& buffers, Workspace work,
                          cudaStream_t stream) {
  SortBuffers<std::uint64_t>& keys = buffers.keys;
  expand_pairs<<<item_grid(panel.num_pairs), kItemThreads, 0, stream>>>(view, panel, keys.front(), nullptr);
  check_launch("expand_pairs");
  cub::DoubleBuffer<std::uint64_t> k(keys.front(), keys.back());
  const auto bits = static_cast<int>(panel.column_bits + bits_for(panel.num_rows));
  check(cub::DeviceRadixSort::SortKeys(work.data, work.bytes, k, panel.num_pairs, 0, bits, stream), "sort pairs");
  keys.current ^= k.selector;
  check(cub::DeviceSelect::Unique(work.data, work.bytes, keys.front(), buffers.c_block_keys, buffers.num_c_blocks,
                                  static_cast<std::int64_t>(panel.num_pairs), stream),
        "unique C blocks");
}

std::size_t list_pairs_workspace_bytes(std::uint64_t max_pairs) {
  std::size_t sort = 0;
  std::size_t select = 0;
  cub::DoubleBuffer<std::uint64_t> keys;
  cub::DoubleBuffer<BlockPair> pairs;
  check(cub::DeviceRadixSort::SortPairs(nullptr, sort, keys, pairs, max_pairs), "pair workspace");
  check(cub::DeviceSelect::Flagged(nullptr, select, thrust::counting_iterator<std::uint32_t>(0),
                                   opens_c_block_flags(nullptr), static_cast<std::uint32_t*>(nullptr),
                                   static_cast<std::uint32_t*>(nullptr), static_cast<std::int64_t>(max_pairs)),
        "pair workspace");
  return std::max(sort, select);
}

void launch_list_pairs(const ExpandView& view, const PanelPairs& panel, PairListBuffers& buffers, Workspace work,
                       cudaStream_t stream) {
  const std::uint64_t count = panel.num_pairs;
  expand_pairs<<<item_grid(count), kItemThreads, 0, stream>>>(view, panel, buffers.keys.front(), buffers.pairs.front());
  check_launch("expand_pairs");
  cub::DoubleBuffer<std::uint64_t> keys(buffers.keys.front(), buffers.keys.back());
  cub::DoubleBuffer<BlockPair> pairs(buffers.pairs.front(), buffers.pairs.back());
  const auto bits = static_cast<int>(panel.column_bits + bits_for(panel.num_rows));
  check(cub::DeviceRadixSort::SortPairs(work.data, work.bytes, keys, pairs, count, 0, bits, stream), "sort pairs");
  buffers.keys.current ^= keys.selector;
  buffers.pairs.current ^= pairs.selector;
  check(cub::DeviceSelect::Flagged(work.data, work.bytes, thrust::counting_iterator<std::uint32_t>(0),
                                   opens_c_block_flags(buffers.keys.front()), buffers.offsets, buffers.num_c_blocks,
                                   static_cast<std::int64_t>(count), stream),
        "C blocks of pairs");
  take_c_block_keys<<<item_grid(count), kItemThreads, 0, stream>>>(buffers.keys.front(), count, buffers);
  check_launch("take_c_block_keys");
}

}  // namespace spmm::kernels
