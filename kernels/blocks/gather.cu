// Many block-CSR matrices to one whose diagonal they are, with their checks, and the result's numbers back.
#include "kernels/blocks/arrays.hpp"

#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

template <class T>
__device__ const T* moved(const T* pointer, std::uint64_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

/// Item x of a table or of a stack; x may be num_items, of which the sums count.
__device__ GatherItem item_at(const GatherTable& table, std::uint64_t x) {
  if (table.items != nullptr) return table.items[x];
  const GatherStep& step = table.step;
  return {.indptr = moved(table.first.indptr, x * step.indptr_bytes),
          .indices = moved(table.first.indices, x * step.indices_bytes),
          .values = moved(table.first.values, x * step.values_bytes),
          .first_row = static_cast<std::uint32_t>(x * step.rows),  // no sum leaves 32 bits
          .first_column = static_cast<std::uint32_t>(x * step.columns),
          .first_block = static_cast<std::uint32_t>(x * step.blocks)};
}

/// The last item before which there are at most `at` rows or blocks: the one that holds it. Values: each = how many of
/// them a matrix of a stack has.
template <std::uint32_t GatherItem::*kFirst>
__device__ std::uint64_t item_of(const GatherTable& table, std::uint64_t at, std::uint32_t each) {
  if (table.items == nullptr) return static_cast<std::uint32_t>(at) / each;
  const auto is_before = [&](std::uint64_t x) { return table.items[x].*kFirst <= at; };
  return partition_point(std::uint64_t{1}, table.num_items, is_before) - 1;
}

// Grid: one thread per block row of all matrices, and one more.
// Work: finds the matrix by a binary search, or a division in a stack, checks the ends of its row as read_arrays does,
//       and moves its begin.
// Memory: contiguous but for the searches, the upper levels of which stay in cache.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    gather_rows(GatherTable from, Index* to_indptr, ArrayFindings* findings) {
  for_each_item(from.num_rows + 1, [&](std::uint64_t row) {
    if (row == from.num_rows) {
      to_indptr[row] = static_cast<Index>(from.num_blocks);
      return;
    }
    const std::uint64_t number = item_of<&GatherItem::first_row>(from, row, from.step.rows);
    const GatherItem item = item_at(from, number);
    const GatherItem next = item_at(from, number + 1);
    const auto* const indptr = static_cast<const Index*>(item.indptr);
    const std::uint64_t own = row - item.first_row;
    const std::int64_t begin = indptr[own];
    const std::int64_t end = indptr[own + 1];
    const auto count = static_cast<std::int64_t>(next.first_block - item.first_block);
    const bool is_sound = begin >= 0 && begin <= end && end <= count && (own != 0 || begin == 0) &&
                          (row + 1 != next.first_row || end == count);
    if (!is_sound) atomicMin(&findings->bad_row, static_cast<unsigned long long>(row));  // across CTAs
    to_indptr[row] = static_cast<Index>(item.first_block + (is_sound ? begin : 0));
  });
}

/// A warp copies elements of `item` bytes: 16 bytes at a time if both lie alike.
__device__ void copy_elements(const std::byte* from, std::byte* to, std::uint64_t bytes, std::uint32_t item,
                              unsigned lane) {
  const auto offset = reinterpret_cast<std::uintptr_t>(from) % sizeof(uint4);
  if (offset != reinterpret_cast<std::uintptr_t>(to) % sizeof(uint4)) {
    if (item == 1) {
      for (std::uint64_t x = lane; x < bytes; x += 32) to[x] = from[x];
      return;
    }
    const auto* const pairs = reinterpret_cast<const std::uint16_t*>(from);
    auto* const to_pairs = reinterpret_cast<std::uint16_t*>(to);
    for (std::uint64_t x = lane; x < bytes / 2; x += 32) to_pairs[x] = pairs[x];
    return;
  }
  const std::uint64_t to_border = (sizeof(uint4) - offset) % sizeof(uint4);
  const std::uint64_t lead = to_border < bytes ? to_border : bytes;
  if (lane < lead) to[lane] = from[lane];
  const std::uint64_t num_vectors = (bytes - lead) / sizeof(uint4);
  const auto* const vectors = reinterpret_cast<const uint4*>(from + lead);
  auto* const to_vectors = reinterpret_cast<uint4*>(to + lead);
  for (std::uint64_t x = lane; x < num_vectors; x += 32) to_vectors[x] = vectors[x];
  const std::uint64_t done = lead + num_vectors * sizeof(uint4);
  if (lane < bytes - done) to[done + lane] = from[done + lane];
}

/// Bytes of elements per warp, about; a block at least.
constexpr std::uint32_t kBytesPerWarp = 4096;

// Grid: one warp per blocks_per_warp blocks of all matrices.
// Work: for each matrix that they belong to, a warp moves and checks its block columns and copies its elements.
// Memory: contiguous reads and writes within a matrix, elements in vectors of 16 bytes if the caller's arrays lie so.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    gather_blocks(GatherTable from, std::uint32_t blocks_per_warp, GatheredArrays to, ArrayFindings* findings) {
  const unsigned lane = threadIdx.x % 32;
  const std::uint64_t block_bytes = std::uint64_t{from.m} * from.m * from.element_bytes;
  auto* const columns = static_cast<Index*>(to.indices);
  const std::uint64_t num_runs = (from.num_blocks + blocks_per_warp - 1) / blocks_per_warp;
  for (std::uint64_t run = this_warp(); run < num_runs; run += std::uint64_t{gridDim.x} * kItemWarps) {
    const std::uint64_t left = from.num_blocks - run * blocks_per_warp;
    const std::uint64_t run_end = run * blocks_per_warp + (left < blocks_per_warp ? left : blocks_per_warp);
    for (std::uint64_t first = run * blocks_per_warp; first < run_end;) {
      const std::uint64_t number = item_of<&GatherItem::first_block>(from, first, from.step.blocks);
      const GatherItem item = item_at(from, number);
      const GatherItem next = item_at(from, number + 1);
      const std::uint64_t end = next.first_block < run_end ? next.first_block : run_end;
      const auto* const indices = static_cast<const Index*>(item.indices);
      const std::int64_t num_columns = next.first_column - item.first_column;
      for (std::uint64_t p = first + lane; p < end; p += 32) {
        const std::int64_t column = indices[p - item.first_block];
        const bool is_sound = column >= 0 && column < num_columns;
        if (!is_sound) atomicMin(&findings->bad_index, static_cast<unsigned long long>(p));  // across CTAs
        columns[p] = static_cast<Index>(item.first_column + (is_sound ? column : 0));
      }
      copy_elements(item.values + (first - item.first_block) * block_bytes, to.values + first * block_bytes,
                    (end - first) * block_bytes, from.element_bytes, lane);
      first = end;
    }
  }
}

// Grid: one warp per block row of the result.
// Work: finds the product as gather_rows does; a warp takes the block columns before it off those of the row, and its
//       first lane writes where the row begins in the product.
// Memory: contiguous within a row; the upper levels of the searches stay in cache.
template <class Index>
__global__ void __launch_bounds__(kItemThreads) number_locally(GatherTable a, GatherTable b, LocalNumbers numbers) {
  const auto* const indptr = static_cast<const Index*>(numbers.indptr);
  auto* const indices = static_cast<Index*>(numbers.indices);
  auto* const indptrs = static_cast<Index*>(numbers.indptrs);
  auto* const first_block = static_cast<Index*>(numbers.first_block);
  for (std::uint64_t row = this_warp(); row < a.num_rows; row += std::uint64_t{gridDim.x} * kItemWarps) {
    const std::uint64_t product = item_of<&GatherItem::first_row>(a, row, a.step.rows);
    const std::uint64_t first_row = item_at(a, product).first_row;
    const Index before = indptr[first_row];
    const Index begin = indptr[row];
    const Index end = indptr[row + 1];
    const auto first_column = static_cast<Index>(item_at(b, product).first_column);
    for (std::int64_t p = std::int64_t{begin} + threadIdx.x % 32; p < end; p += 32) indices[p] -= first_column;
    if (threadIdx.x % 32 != 0) continue;
    indptrs[row + product] = begin - before;
    if (row + 1 == item_at(a, product + 1).first_row) indptrs[row + product + 1] = end - before;
    if (row == first_row) first_block[product] = before;
    if (row + 1 == a.num_rows) first_block[a.num_items] = end;
  }
}

}  // namespace

void launch_gather(const GatherTable& from, const GatheredArrays& to, ArrayFindings* findings, cudaStream_t stream) {
  const std::uint32_t block_bytes = from.m * from.m * from.element_bytes;
  const std::uint32_t blocks_per_warp = std::max(1u, kBytesPerWarp / block_bytes);
  for_index_type(from.index_bytes, [&]<class Index>(Index) {
    gather_rows<<<item_grid(from.num_rows + 1), kItemThreads, 0, stream>>>(from, static_cast<Index*>(to.indptr),
                                                                           findings);
    check_launch("gather_rows");
    if (from.num_blocks == 0) return;
    const unsigned grid = warp_grid((from.num_blocks + blocks_per_warp - 1) / blocks_per_warp);
    gather_blocks<Index><<<grid, kItemThreads, 0, stream>>>(from, blocks_per_warp, to, findings);
    check_launch("gather_blocks");
  });
}

void launch_number_locally(const GatherTable& a, const GatherTable& b, const LocalNumbers& numbers,
                           cudaStream_t stream) {
  for_index_type(a.index_bytes, [&]<class Index>(Index) {
    number_locally<Index><<<warp_grid(a.num_rows), kItemThreads, 0, stream>>>(a, b, numbers);
  });
  check_launch("number_locally");
}

}  // namespace spmm::kernels
