// Which tiles of A, B and C are not empty, as bitmaps, and how many products of tiles there are.
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/tiles/launch.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

// Grid: a warp per stored row of A.
// Work: a lane per block sets the bits of the tiles that the block lies in.
// Memory: columns read contiguously; neighbouring blocks share a tile, so that most find its bit set.
__global__ void mark_a_tiles(CompressedView a, TileMapsView maps) {
  for (std::uint32_t row = this_warp(); row < a.num_rows; row += gridDim.x * kItemWarps) {
    std::uint32_t* const line = maps.a + std::uint64_t{row / maps.grid.row_blocks()} * maps.grid.k_words();
    for (std::uint32_t p = a.offsets[row] + threadIdx.x % 32; p < a.offsets[row + 1]; p += 32) {
      const std::uint32_t first = maps.grid.first_k_tile(a.columns[p]);
      const std::uint32_t last = maps.grid.last_k_tile(a.columns[p]);
      set_bit(line, first);
      if (last != first) set_bit(line, last);
    }
  }
}

// Grid: a warp per stored row of B.
// Work: as above, in both orders.
// Memory: as above.
__global__ void mark_b_tiles(CompressedView b, TileMapsView maps) {
  const std::uint32_t words = maps.grid.k_words();
  const std::uint32_t across_words = maps.grid.column_words();
  const std::uint32_t column_blocks = maps.grid.column_blocks();
  for (std::uint32_t row = this_warp(); row < b.num_rows; row += gridDim.x * kItemWarps) {
    const std::uint32_t first = maps.grid.first_k_tile(b.rows[row]);
    const std::uint32_t last = maps.grid.last_k_tile(b.rows[row]);
    for (std::uint32_t p = b.offsets[row] + threadIdx.x % 32; p < b.offsets[row + 1]; p += 32) {
      const std::uint32_t column = b.columns[p] / column_blocks;
      for (std::uint32_t k = first; k <= last; ++k) {
        set_bit(maps.b + std::uint64_t{column} * words, k);
        set_bit(maps.b_across + std::uint64_t{k} * across_words, column);
      }
    }
  }
}

// Grid: a warp per tile along K.
// Work: B's tiles there.
// Memory: the bitmap once.
__global__ void count_b_tiles(TileMapsView maps, std::uint32_t* b_per_k, TileTotals* totals) {
  const std::uint32_t words = maps.grid.column_words();
  for (std::uint32_t k = this_warp(); k < maps.grid.num_k_tiles(); k += gridDim.x * kItemWarps) {
    const std::uint32_t* const line = maps.b_across + std::uint64_t{k} * words;
    std::uint32_t count = 0;
    for (std::uint32_t w = threadIdx.x % 32; w < words; w += 32) count += __popc(line[w]);
    count = warp_total(count);
    if (threadIdx.x % 32 != 0) continue;
    b_per_k[k] = count;
    atomicAdd(&totals->b_tiles, std::uint64_t{count});  // over all warps
  }
}

// Grid: a warp per row of tiles.
// Work: tiles of A, and for each the tiles of B that it meets.
// Memory: the bitmap once.
__global__ void count_stages(TileMapsView maps, const std::uint32_t* b_per_k, TileRowCounts* rows, TileTotals* totals) {
  const std::uint32_t words = maps.grid.k_words();
  for (std::uint32_t row = this_warp(); row < maps.grid.num_row_tiles(); row += gridDim.x * kItemWarps) {
    const std::uint32_t* const line = maps.a + std::uint64_t{row} * words;
    unsigned long long tiles = 0;
    unsigned long long stages = 0;
    for (std::uint32_t w = threadIdx.x % 32; w < words; w += 32) {
      tiles += __popc(line[w]);
      for (std::uint32_t left = line[w]; left != 0; left &= left - 1) stages += b_per_k[w * 32 + __ffs(left) - 1];
    }
    tiles = warp_total(tiles);
    stages = warp_total(stages);
    if (threadIdx.x % 32 != 0) continue;
    rows[row] = {.a_tiles = static_cast<std::uint32_t>(tiles), .stages = static_cast<std::uint32_t>(stages)};
    atomicAdd(&totals->a_tiles, tiles);  // over all warps
    atomicAdd(&totals->stages, stages);  // over all warps
  }
}

// Grid: a CTA per row of tiles.
// Work: A's tiles are listed, up to 32 for each thread at a time; then a thread takes words of C's row, each of which
//       is the union of the rows of B's tiles that A's tiles meet.
// Memory: the list in shared memory, words of B from L2, contiguous.
__global__ void __launch_bounds__(kItemThreads) mark_c_tiles(TileMapsView maps, TileRowCounts* rows) {
  __shared__ std::uint32_t tiles[32 * kItemThreads];
  __shared__ std::uint32_t num_listed;
  __shared__ std::uint32_t num_tiles;
  const std::uint32_t row = blockIdx.x;
  const std::uint32_t k_words = maps.grid.k_words();
  const std::uint32_t words = maps.grid.column_words();
  const std::uint32_t* const a = maps.a + std::uint64_t{row} * k_words;
  std::uint32_t* const c = maps.c + std::uint64_t{row} * words;
  if (threadIdx.x == 0) num_tiles = 0;
  for (std::uint32_t first = 0; first < k_words; first += kItemThreads) {
    if (threadIdx.x == 0) num_listed = 0;
    __syncthreads();  // the list is empty
    const std::uint32_t k = first + threadIdx.x;
    const std::uint32_t word = k < k_words ? a[k] : 0;
    if (word != 0) {
      std::uint32_t place = atomicAdd(&num_listed, __popc(word));  // over all threads; any order will do
      for (std::uint32_t left = word; left != 0; left &= left - 1) tiles[place++] = k * 32 + __ffs(left) - 1;
    }
    __syncthreads();  // the list is complete
    const bool is_last = first + kItemThreads >= k_words;
    for (std::uint32_t w = threadIdx.x; w < words; w += kItemThreads) {
      std::uint32_t all = first == 0 ? 0 : c[w];
#pragma unroll 4
      for (std::uint32_t x = 0; x < num_listed; ++x) all |= maps.b_across[std::uint64_t{tiles[x]} * words + w];
      c[w] = all;
      if (is_last && all != 0) atomicAdd(&num_tiles, __popc(all));  // over all threads
    }
    __syncthreads();  // all words are written, and the list may be cleared
  }
  if (threadIdx.x != 0) return;
  const std::uint32_t last = maps.grid.num_column_tiles() - 1;
  const std::uint32_t full = maps.grid.column_blocks();
  const bool has_last = (c[last / 32] >> last % 32 & 1) != 0;
  rows[row].c_tiles = num_tiles;
  rows[row].c_columns = num_tiles * full - (has_last ? full - maps.grid.columns_of(last) : 0);
}

}  // namespace

void launch_mark_tiles(const CompressedView& a, const CompressedView& b, const TileMapsView& maps,
                       cudaStream_t stream) {
  mark_a_tiles<<<warp_grid(a.num_rows), kItemThreads, 0, stream>>>(a, maps);
  check_launch("mark_a_tiles");
  mark_b_tiles<<<warp_grid(b.num_rows), kItemThreads, 0, stream>>>(b, maps);
  check_launch("mark_b_tiles");
}

void launch_count_tiles(const TileMapsView& maps, std::uint32_t* b_per_k, TileRowCounts* rows, TileTotals* totals,
                        cudaStream_t stream) {
  check(cudaMemsetAsync(totals, 0, sizeof(TileTotals), stream), "clear tile counts");
  count_b_tiles<<<warp_grid(maps.grid.num_k_tiles()), kItemThreads, 0, stream>>>(maps, b_per_k, totals);
  check_launch("count_b_tiles");
  count_stages<<<warp_grid(maps.grid.num_row_tiles()), kItemThreads, 0, stream>>>(maps, b_per_k, rows, totals);
  check_launch("count_stages");
}

void launch_mark_c_tiles(const TileMapsView& maps, TileRowCounts* rows, cudaStream_t stream) {
  if (maps.grid.num_row_tiles() == 0) return;
  mark_c_tiles<<<maps.grid.num_row_tiles(), kItemThreads, 0, stream>>>(maps, rows);
  check_launch("mark_c_tiles");
}

}  // namespace spmm::kernels
