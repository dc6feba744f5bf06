// Blocks of an operand -> tiles of byte planes, only those that are not empty.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/tile_product.hpp"

namespace spmm::kernels {
namespace {

/// What all tiles of an operand have in common.
struct TileSource {
  OperandView operand;
  TileGrid grid;
  std::uint32_t shift = 8;
};

/// Blocks [begin, end) of row `row_index` of the index; element (0, 0) of a block in column 0 would lie in plane row
/// `row` and, along K, at k (A: plus m for each column), in elements, both relative to the tile.
struct TileRun {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Writes a group of `Width` elements of a row of a block, split into high and low bytes, at an element row of the tile
/// and a place along K.
/// Values: Width 4 (8-byte aligned elements, k a multiple of 4) or 1.
template <std::uint32_t Width>
__device__ inline void split_group(const std::uint16_t* from, std::uint32_t row, std::uint32_t k,
                                   const TileSource& source, std::uint8_t* tile) {
  const std::uint32_t planes = source.grid.num_planes;
  const std::uint32_t shift = source.shift;
  const std::uint32_t mask = (1u << shift) - 1;
  std::uint8_t* const high = tile + tile_byte(row, 0, k, planes);
  std::uint8_t* const low = tile + tile_byte(row, 1, k, planes);
  if constexpr (Width == 4) {
    const uint2 four = *reinterpret_cast<const uint2*>(from);
    *reinterpret_cast<std::uint32_t*>(high) = __byte_perm(four.x >> shift, four.y >> shift, 0x6420);
    if (planes == 2) {
      *reinterpret_cast<std::uint32_t*>(low) = __byte_perm(four.x, four.y, 0x6420) & mask * 0x0101'0101u;
    }
  } else {
    *high = static_cast<std::uint8_t>(*from >> shift);
    if (planes == 2) *low = static_cast<std::uint8_t>(*from & mask);
  }
}

/// Writes the elements of a run of blocks of one row of the index that lie in the tile. first_k: of the tile.
/// Work: lanes of `num_warps` warps, this one being number `warp`, take groups of `Width` elements of a row of a block.
template <bool AlongRow, std::uint32_t Width>
__device__ inline void fill_run(const TileSource& source, const TileRun& run, std::uint32_t row,
                                std::uint32_t first_row, std::uint32_t first_k, std::uint32_t warp,
                                std::uint32_t num_warps, std::uint8_t* tile) {
  const OperandView& operand = source.operand;
  const std::uint32_t m = source.grid.m;
  const std::uint32_t groups = m / Width;  // of a row of a block
  const auto count = static_cast<std::uint32_t>(run.end - run.begin) * groups * m;
  for (std::uint32_t x = warp * 32 + threadIdx.x % 32; x < count; x += num_warps * 32) {
    const std::uint64_t p = run.begin + x / (groups * m);
    const std::uint32_t r = x / groups % m;
    const std::uint32_t kk = x % groups * Width;
    const std::uint32_t column = operand.index.columns[p];
    // Elements before the tile wrap to large numbers.
    const std::uint32_t k = (AlongRow ? column : row) * m + kk - first_k;
    if (k >= kTileDepth) continue;
    const std::uint64_t block = operand.numbers == nullptr ? p : operand.numbers[p];
    split_group<Width>(operand.values + (block * m + r) * m + kk, ((AlongRow ? row : column) - first_row) * m + r, k,
                       source, tile);
  }
}

/// Writes the blocks of the operand that lie in the tile.
/// Work: a warp per row of the index, or several where there are fewer rows than warps.
template <bool AlongRow, std::uint32_t Width>
__device__ void fill_tile(const TileSource& source, const PlacedTile& placed, std::uint8_t* tile) {
  const TileGrid& grid = source.grid;
  const CompressedView& index = source.operand.index;
  const std::uint32_t first_k_block = grid.first_k_block(placed.k);
  const std::uint32_t end_k_block = grid.end_k_block(placed.k);
  std::uint64_t row = 0;  // of the index
  std::uint64_t end_row = 0;
  std::uint32_t first_column = first_k_block;
  std::uint32_t end_column = end_k_block;
  std::uint32_t first_line = 0;  // of the tile: row index or block column
  if constexpr (AlongRow) {
    first_line = placed.line * grid.row_blocks();
    row = first_line;
    end_row = row + grid.rows_of(placed.line);
  } else {
    first_line = placed.line * grid.column_blocks();
    row = lower_bound(index.rows, 0, index.num_rows, first_k_block);
    end_row = lower_bound(index.rows, row, index.num_rows, end_k_block);
    first_column = first_line;
    end_column = first_line + grid.columns_of(placed.line);
  }
  const auto num_rows = static_cast<std::uint32_t>(end_row - row);
  if (num_rows == 0) return;
  const std::uint32_t warps_per_row = max(1u, kItemWarps / num_rows);
  const std::uint32_t part = threadIdx.x / 32 % warps_per_row;
  for (row += threadIdx.x / 32 / warps_per_row; row < end_row; row += kItemWarps / warps_per_row) {
    const std::uint64_t begin = lower_bound(index.columns, index.offsets[row], index.offsets[row + 1], first_column);
    const std::uint64_t end = lower_bound(index.columns, begin, index.offsets[row + 1], end_column);
    fill_run<AlongRow, Width>(source, {.begin = begin, .end = end},
                              AlongRow ? static_cast<std::uint32_t>(row) : index.rows[row], first_line,
                              placed.k * kTileDepth, part, warps_per_row, tile);
  }
}

// Grid: a CTA per tile.
// Work: the CTA clears its tile, writes blocks into it and copies it out.
// Memory: blocks are read contiguously; the tile is assembled in shared memory, where the swizzle keeps banks apart,
// and
//         written as one piece.
template <bool AlongRow, std::uint32_t Width>
__global__ void __launch_bounds__(kItemThreads)
    expand_tiles(TileSource source, const PlacedTile* tiles, std::uint8_t* bytes) {
  constexpr std::uint32_t kBytes = AlongRow ? kTileBytesA : kTileBytesB;
  __shared__ uint4 data[kBytes / 16];
  for (std::uint32_t x = threadIdx.x; x < kBytes / 16; x += kItemThreads) data[x] = uint4{0, 0, 0, 0};
  __syncthreads();  // the tile is clear
  fill_tile<AlongRow, Width>(source, tiles[blockIdx.x], reinterpret_cast<std::uint8_t*>(data));
  __syncthreads();  // the tile is complete
  uint4* const to = reinterpret_cast<uint4*>(bytes + std::uint64_t{blockIdx.x} * kBytes);
  for (std::uint32_t x = threadIdx.x; x < kBytes / 16; x += kItemThreads) to[x] = data[x];
}

template <bool AlongRow>
void expand(const TileSource& source, const PlacedTile* tiles, unsigned count, std::uint8_t* bytes,
            cudaStream_t stream) {
  if (source.grid.m % 4 == 0) {
    expand_tiles<AlongRow, 4><<<count, kItemThreads, 0, stream>>>(source, tiles, bytes);
  } else {
    expand_tiles<AlongRow, 1><<<count, kItemThreads, 0, stream>>>(source, tiles, bytes);
  }
}

}  // namespace

void launch_expand_tiles(const OperandView& operand, const TileGrid& grid, bool along_row, std::uint32_t shift,
                         const PlacedTile* tiles, std::uint64_t count, std::uint8_t* bytes, cudaStream_t stream) {
  if (count == 0) return;
  const TileSource source{.operand = operand, .grid = grid, .shift = shift};
  if (along_row) {
    expand<true>(source, tiles, static_cast<unsigned>(count), bytes, stream);
  } else {
    expand<false>(source, tiles, static_cast<unsigned>(count), bytes, stream);
  }
  check_launch("expand_tiles");
}

}  // namespace spmm::kernels
