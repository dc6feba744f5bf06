// Bitmaps of tiles -> numbered tiles of the operands, C tiles, the stages of each and the C blocks in them.
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/tiles/launch.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kSortThreads = 1024;

/// Reserves `count` places for the whole warp; returns the first one.
/// Threads: one whole warp, all with the same count.
__device__ inline std::uint32_t reserve(std::uint32_t* end, std::uint32_t count) {
  const std::uint32_t first = threadIdx.x % 32 == 0 ? atomicAdd(end, count) : 0;  // over all warps
  return __shfl_sync(~0u, first, 0);
}

// Grid: a warp per line of the bitmap.
// Work: counts the line's tiles, reserves numbers for them, writes them.
// Memory: the line twice, tiles contiguous per lane.
__global__ void number_tiles(const std::uint32_t* bits, std::uint32_t words, std::uint32_t first_line,
                             std::uint32_t num_lines, TileNumbers numbers) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t x = this_warp(); x < num_lines; x += gridDim.x * kItemWarps) {
    const std::uint32_t* const line = bits + std::uint64_t{first_line + x} * words;
    std::uint32_t count = 0;
    for (std::uint32_t w = lane; w < words; w += 32) count += __popc(line[w]);
    const std::uint32_t first = reserve(numbers.count, warp_total(count));
    if (lane == 0) numbers.first_tiles[x] = first;
    scan_by_warp(
        0, words, first, [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(line[w])); },
        [&](std::uint32_t w, std::uint32_t number) {
          for (std::uint32_t left = line[w]; left != 0; left &= left - 1) {
            numbers.tiles[number++] = {.line = first_line + x, .k = w * 32 + __ffs(left) - 1};
          }
        });
  }
}

// Grid: a warp per row of tiles.
// Work: a task for each C tile, still without stages.
// Memory: the line of C's bitmap once.
__global__ void list_c_tiles(TileMapsView maps, TilePanel panel, TileTask* tasks) {
  const TileGrid& grid = maps.grid;
  const std::uint32_t words = grid.column_words();
  for (std::uint32_t x = this_warp(); x < panel.num_row_tiles; x += gridDim.x * kItemWarps) {
    const std::uint32_t row = panel.first_row_tile + x;
    const TileRowStart start = panel.starts[x];
    const std::uint32_t* const line = maps.c + std::uint64_t{row} * words;
    scan_by_warp(
        0, words, 0, [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(line[w])); },
        [&](std::uint32_t w, std::uint32_t rank) {
          for (std::uint32_t left = line[w]; left != 0; left &= left - 1, ++rank) {
            const std::uint32_t column = w * 32 + __ffs(left) - 1;
            tasks[start.first_c_tile + rank] = {.first_c_block = start.first_c_block + rank * grid.column_blocks(),
                                                .row_stride = start.c_columns,
                                                .end_row = grid.rows_of(row) * grid.m,
                                                .end_column = grid.columns_of(column) * grid.m,
                                                .row_tile = row,
                                                .column_tile = column};
          }
        });
  }
}

/// The keys of a C tile's blocks.
/// Threads: one whole warp.
__device__ inline void write_keys(const TileGrid& grid, const TilePanel& panel, const TileTask& task,
                                  std::uint64_t* keys) {
  const std::uint32_t columns = grid.columns_of(task.column_tile);
  const std::uint32_t first_column = task.column_tile * grid.column_blocks();
  const std::uint32_t first_row = (task.row_tile - panel.first_row_tile) * grid.row_blocks();
  for (std::uint32_t x = threadIdx.x % 32; x < grid.rows_of(task.row_tile) * columns; x += 32) {
    const std::uint32_t row = x / columns;
    const std::uint32_t column = x % columns;
    keys[std::uint64_t{task.first_c_block} + std::uint64_t{row} * task.row_stride + column] =
        std::uint64_t{first_row + row} << panel.column_bits | (first_column + column);
  }
}

// Grid: a warp per C tile.
// Work: a lane per word of A's row and B's column; the first pass counts stages, the second writes them. Long lists are
//       put down once more.
// Memory: both lines twice, from L2; stages contiguous per lane.
__global__ void list_stages(TileMapsView maps, TilePanel panel, const std::uint32_t* first_a_tiles,
                            const std::uint32_t* first_b_tiles, TileLists lists) {
  const TileGrid& grid = maps.grid;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t words = grid.k_words();
  for (std::uint32_t x = this_warp(); x < panel.num_c_tiles; x += gridDim.x * kItemWarps) {
    const TileTask task = lists.tasks[x];
    const std::uint32_t* const a = maps.a + std::uint64_t{task.row_tile} * words;
    const std::uint32_t* const b = maps.b + std::uint64_t{task.column_tile} * words;
    std::uint32_t count = 0;  // stages: where A's row and B's column both have a tile
    for (std::uint32_t w = lane; w < words; w += 32) count += __popc(a[w] & b[w]);
    count = warp_total(count);
    std::uint32_t next = reserve(lists.num_entries, count);
    if (lane == 0) {
      lists.tasks[x].first_entry = next;
      lists.tasks[x].num_entries = count;
      if (count > lists.long_entries) lists.long_tasks[atomicAdd(lists.num_long, 1)] = x;  // over all warps
    }
    TileEntry before{.a = first_a_tiles[task.row_tile - panel.first_row_tile], .b = first_b_tiles[task.column_tile]};
    for (std::uint32_t first = 0; first < words; first += 32) {
      const std::uint32_t w = first + lane;
      const std::uint32_t a_word = w < words ? a[w] : 0;
      const std::uint32_t b_word = w < words ? b[w] : 0;
      const std::uint32_t common = a_word & b_word;  // where both have a tile
      const std::uint32_t a_through = inclusive_warp_sum(__popc(a_word));
      const std::uint32_t b_through = inclusive_warp_sum(__popc(b_word));
      const std::uint32_t through = inclusive_warp_sum(__popc(common));
      const TileEntry of_word{.a = before.a + a_through - __popc(a_word), .b = before.b + b_through - __popc(b_word)};
      std::uint32_t at = next + through - __popc(common);
      for (std::uint32_t left = common; left != 0; left &= left - 1) {
        const std::uint32_t below = (left & (0u - left)) - 1;  // the bits before
        lists.entries[at++] = {.a = of_word.a + __popc(a_word & below), .b = of_word.b + __popc(b_word & below)};
      }
      before.a += __shfl_sync(~0u, a_through, 31);
      before.b += __shfl_sync(~0u, b_through, 31);
      next += __shfl_sync(~0u, through, 31);
    }
    write_keys(grid, panel, task, lists.c_block_keys);
  }
}

// Grid: one CTA.
// Work: each long list finds its place by counting those before it: longer ones, and of equal ones the earlier.
// Memory: lengths and numbers in shared memory.
__global__ void __launch_bounds__(kSortThreads) order_long_lists(TileLists lists) {
  __shared__ std::uint32_t lengths[kMaxLongLists];
  __shared__ std::uint32_t tasks[kMaxLongLists];
  const std::uint32_t count = *lists.num_long;
  for (std::uint32_t x = threadIdx.x; x < count; x += kSortThreads) {
    tasks[x] = lists.long_tasks[x];
    lengths[x] = lists.tasks[tasks[x]].num_entries;
  }
  __syncthreads();  // all are there before places are overwritten
  for (std::uint32_t x = threadIdx.x; x < count; x += kSortThreads) {
    std::uint32_t place = 0;
    for (std::uint32_t y = 0; y < count; ++y) {
      if (lengths[y] > lengths[x] || (lengths[y] == lengths[x] && tasks[y] < tasks[x])) ++place;
    }
    lists.long_tasks[place] = tasks[x];
  }
}

}  // namespace

void launch_number_tiles(const std::uint32_t* bits, std::uint32_t words_per_line, std::uint32_t first_line,
                         std::uint32_t num_lines, const TileNumbers& numbers, cudaStream_t stream) {
  check(cudaMemsetAsync(numbers.count, 0, sizeof(std::uint32_t), stream), "clear count");
  number_tiles<<<warp_grid(num_lines), kItemThreads, 0, stream>>>(bits, words_per_line, first_line, num_lines, numbers);
  check_launch("number_tiles");
}

void launch_list_tile_tasks(const TileMapsView& maps, const TilePanel& panel, const std::uint32_t* first_a_tiles,
                            const std::uint32_t* first_b_tiles, const TileLists& lists, cudaStream_t stream) {
  check(cudaMemsetAsync(lists.num_entries, 0, sizeof(std::uint32_t), stream), "clear count");
  check(cudaMemsetAsync(lists.num_long, 0, sizeof(std::uint32_t), stream), "clear count");
  list_c_tiles<<<warp_grid(panel.num_row_tiles), kItemThreads, 0, stream>>>(maps, panel, lists.tasks);
  check_launch("list_c_tiles");
  list_stages<<<warp_grid(panel.num_c_tiles), kItemThreads, 0, stream>>>(maps, panel, first_a_tiles, first_b_tiles,
                                                                         lists);
  check_launch("list_stages");
  order_long_lists<<<1, kSortThreads, 0, stream>>>(lists);
  check_launch("order_long_lists");
}

}  // namespace spmm::kernels
