// Keys in file order -> compressed rows by counting: how many blocks each row has tells where it begins, blocks go
// there in any order and are sorted within their row. For matrices whose rows are short; both operands in the same
// launches.
#include <algorithm>

#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/tuning.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

static_assert(kItemWarps * 2 * kBitmapColumns / 32 * sizeof(std::uint32_t) <= 48u << 10);

/// Both sides by value: blockIdx.y picks one.
struct Sides {
  RowSort side[2];
  std::uint32_t nb;
  unsigned key_bits;
  std::uint32_t* counts;   // [sides * nb, counter_stride(nb)]: blocks of each block row
  std::uint64_t* borders;  // [sides * nb + 1]: before each block row, stored rows << 32 | blocks, side after side

  [[nodiscard]] __device__ std::uint32_t row_of(std::uint64_t key) const {
    return static_cast<std::uint32_t>(key >> key_bits);
  }
  /// Border of a row, counted from the side's own first one.
  [[nodiscard]] __device__ std::uint64_t border(std::uint32_t which, std::uint64_t row) const {
    const std::uint64_t* const own = borders + std::uint64_t{which} * nb;
    return own[row] - own[0];
  }
};

/// Counts the blocks of sorted rows: their first block subtracts its position, their last one adds the next.
__device__ void count_sorted(const Sides& sides, const RowSort& own, std::uint32_t* counts, std::uint64_t stride) {
  for_each_item(own.count, [&](std::uint64_t x) {
    const std::uint32_t row = sides.row_of(own.keys[x]);
    const auto position = static_cast<std::uint32_t>(x);
    // The two ends of a row come in any order, and may wrap around in between.
    if (x == 0 || sides.row_of(own.keys[x - 1]) != row) atomicAdd(&counts[row * stride], 0u - position);
    if (x + 1 == own.count || sides.row_of(own.keys[x + 1]) != row) atomicAdd(&counts[row * stride], position + 1);
  });
}

// Grid: one thread per key; a row of CTAs per side.
// Work: a block takes the next rank of its row; the longest row is noted if bitmaps are not taken. Of sorted keys rows
//       are counted alone.
// Memory: contiguous keys and ranks; counters are scattered, and stay in L2 for some million rows.
__global__ void __launch_bounds__(kItemThreads) rank_blocks(Sides sides) {
  const RowSort& own = sides.side[blockIdx.y];
  const std::uint64_t stride = counter_stride(sides.nb);
  std::uint32_t* const counts = sides.counts + std::uint64_t{blockIdx.y} * sides.nb * stride;
  std::uint32_t most = 0;
  if (own.is_sorted) return count_sorted(sides, own, counts, stride);
  for_each_item(own.count, [&](std::uint64_t x) {
    // Blocks of a row come in any order.
    const std::uint32_t rank = atomicAdd(&counts[sides.row_of(own.keys[x]) * stride], 1u);
    own.numbers[x] = rank;
    most = max(most, rank + 1);
  });
  if (sides.nb <= kBitmapColumns) return;
  raise_max(own.longest_row, most);
}

// Grid: one thread per key; a row of CTAs per side.
// Work: a block goes to its row, at the place of its rank.
// Memory: contiguous keys and ranks, scattered borders and writes of 8 bytes.
__global__ void __launch_bounds__(kItemThreads) scatter_blocks(Sides sides) {
  const RowSort& own = sides.side[blockIdx.y];
  if (own.is_sorted || (sides.nb > kBitmapColumns && *own.longest_row > kCountedRowBlocks)) return;
  for_each_item(own.count, [&](std::uint64_t x) {
    const std::uint64_t key = own.keys[x];
    const auto begin = static_cast<std::uint32_t>(sides.border(blockIdx.y, sides.row_of(key)));
    own.entries[begin + own.numbers[x]] = key << 32 | x;  // what is cut off belongs to the row
  });
}

/// The blocks of a row: [begin, end) among those of the side; its row index if it has any.
struct RowExtent {
  std::uint32_t begin;
  std::uint32_t end;

  /// Threads: any, of which the leader writes what is known of the row.
  __device__ RowExtent(const Sides& sides, const RowSort& own, std::uint32_t row, bool is_leader) {
    const std::uint64_t border = sides.border(blockIdx.y, row);
    const std::uint64_t next = sides.border(blockIdx.y, row + std::uint64_t{1});
    begin = static_cast<std::uint32_t>(border);
    end = static_cast<std::uint32_t>(next);
    if (!is_leader) return;
    if (begin != end) {
      own.rows[border >> 32] = row;
      own.offsets[border >> 32] = begin;
    }
    if (row + 1 == sides.nb) {
      own.offsets[next >> 32] = end;
      *own.num_rows = static_cast<std::uint32_t>(next >> 32);
    }
  }
};

/// Writes an entry to its position.
__device__ inline void put_block(const Sides& sides, const RowSort& own, std::uint32_t row, std::uint64_t entry,
                                 std::uint32_t position) {
  const std::uint64_t column = entry >> 32 & ((std::uint64_t{1} << sides.key_bits) - 1);
  own.sorted_keys[position] = std::uint64_t{row} << sides.key_bits | column;
  own.columns[position] = static_cast<std::uint32_t>(column);
  own.numbers[position] = static_cast<std::uint32_t>(entry);
}

/// Puts the blocks of a sorted row where they are.
__device__ inline void put_sorted(const Sides& sides, const RowSort& own, std::uint32_t row, const RowExtent& extent,
                                  std::uint32_t lane, std::uint32_t num_lanes) {
  for (std::uint32_t x = extent.begin + lane; x < extent.end; x += num_lanes) {
    put_block(sides, own, row, own.keys[x] << 32 | x, x);
  }
}

// Grid: kFewLanes threads per block row; a row of CTAs per side.
// Work: each lane takes blocks of the row in turn and counts which of them come before.
// Memory: contiguous; a row is read again and again from cache.
__global__ void __launch_bounds__(kItemThreads) sort_short_rows(Sides sides) {
  constexpr std::uint32_t kLanes = kFewLanes;
  const RowSort& own = sides.side[blockIdx.y];
  if (own.count == 0 || *own.longest_row > kCountedRowBlocks) return;
  const std::uint32_t lane = threadIdx.x % kLanes;
  for_each_item(std::uint64_t{sides.nb} * kLanes, [&](std::uint64_t item) {
    const auto row = static_cast<std::uint32_t>(item / kLanes);
    const RowExtent extent(sides, own, row, lane == 0);
    if (own.is_sorted) return put_sorted(sides, own, row, extent, lane, kLanes);
    for (std::uint32_t x = extent.begin + lane; x < extent.end; x += kLanes) {
      const std::uint64_t entry = own.entries[x];
      std::uint32_t position = extent.begin;
#pragma unroll 4
      for (std::uint32_t y = extent.begin; y < extent.end; ++y) {
        const std::uint64_t other = own.entries[y];
        if (other >= entry) continue;
        ++position;
        if (other >> 32 == entry >> 32) *own.has_duplicate = 1;  // all threads that write store 1: no atomic is needed
      }
      put_block(sides, own, row, entry, position);
    }
  });
}

// Grid: one warp per block row; a row of CTAs per side.
// Work: a bit per block column says which are there; a block's position is the number of bits before its own.
// Memory: contiguous entries, read twice; a bit and half a word per 32 columns in shared memory.
__global__ void __launch_bounds__(kItemThreads) sort_by_bitmap(Sides sides) {
  extern __shared__ std::uint32_t words_and_sums[];  // [warps, 2, words]
  const RowSort& own = sides.side[blockIdx.y];
  if (own.count == 0) return;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t num_words = (sides.nb + 31) / 32;
  std::uint32_t* const words = words_and_sums + threadIdx.x / 32 * num_words * 2;
  std::uint32_t* const before = words + num_words;
  const std::uint32_t mask = (1u << sides.key_bits) - 1;
  for (std::uint32_t row = this_warp(); row < sides.nb; row += gridDim.x * kItemWarps) {
    const RowExtent extent(sides, own, row, lane == 0);
    if (own.is_sorted) {
      put_sorted(sides, own, row, extent, lane, 32);
      continue;
    }
    for (std::uint32_t w = lane; w < num_words; w += 32) words[w] = 0;
    __syncwarp();  // bits are clear
    for (std::uint32_t x = extent.begin + lane; x < extent.end; x += 32) {
      const std::uint32_t column = static_cast<std::uint32_t>(own.entries[x] >> 32) & mask;
      const std::uint32_t bit = 1u << column % 32;
      if ((atomicOr(&words[column / 32], bit) & bit) != 0) *own.has_duplicate = 1;  // lanes share words
    }
    __syncwarp();  // bits are complete
    scan_by_warp(
        0, num_words, 0, [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(words[w])); },
        [&](std::uint32_t w, std::uint32_t sum) { before[w] = sum; });
    __syncwarp();  // sums are complete
    for (std::uint32_t x = extent.begin + lane; x < extent.end; x += 32) {
      const std::uint64_t entry = own.entries[x];
      const std::uint32_t column = static_cast<std::uint32_t>(entry >> 32) & mask;
      const std::uint32_t below = words[column / 32] & ((1u << column % 32) - 1);
      put_block(sides, own, row, entry, extent.begin + before[column / 32] + __popc(below));
    }
    __syncwarp();  // bits have been read
  }
}

}  // namespace

std::size_t sort_rows_workspace_bytes(std::uint64_t num_counts) {
  return Scan<StoredRow>::workspace_bytes(num_counts + 1);
}

void launch_sort_rows(std::span<const RowSort> sorts, const RowSortScratch& scratch, std::uint32_t nb,
                      unsigned key_bits, cudaStream_t stream) {
  Sides sides{.side = {}, .nb = nb, .key_bits = key_bits, .counts = scratch.counts, .borders = scratch.borders};
  std::uint64_t most = 0;
  for (std::size_t x = 0; x < sorts.size(); ++x) {
    sides.side[x] = sorts[x];
    most = std::max(most, sorts[x].count);
  }
  const auto num_sides = static_cast<unsigned>(sorts.size());
  const std::uint64_t num_counts = std::uint64_t{nb} * num_sides;
  const dim3 grid(item_grid(most), num_sides);
  rank_blocks<<<grid, kItemThreads, 0, stream>>>(sides);
  check_launch("rank_blocks");
  Scan<StoredRow>::launch({scratch.counts, num_counts, counter_stride(nb)}, num_counts + 1, scratch.borders,
                          scratch.work, stream, "row borders");
  if (!std::all_of(sorts.begin(), sorts.end(), [](const RowSort& sort) { return sort.is_sorted; })) {
    scatter_blocks<<<grid, kItemThreads, 0, stream>>>(sides);
    check_launch("scatter_blocks");
  }
  if (nb <= kBitmapColumns) {
    const std::size_t shared_bytes = std::size_t{kItemWarps} * 2 * ((nb + 31) / 32) * sizeof(std::uint32_t);
    sort_by_bitmap<<<dim3(warp_grid(nb), num_sides), kItemThreads, shared_bytes, stream>>>(sides);
  } else {
    const dim3 of_rows(item_grid(std::uint64_t{nb} * kFewLanes), num_sides);
    sort_short_rows<<<of_rows, kItemThreads, 0, stream>>>(sides);
  }
  check_launch("sort rows");
}

}  // namespace spmm::kernels
