// Blocks of an operand -> tiles of byte planes, only those that are not empty.
#include <type_traits>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/tiles/launch.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

/// What all tiles of an operand have in common.
struct TileSource {
  OperandView operand;
  TileGrid grid;
  std::uint32_t shift = 8;
};

/// Blocks [begin, end) of one row of the index.
struct TileRun {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t row = 0;  // A: row index, B: block row
};

/// What fills a run: number `part` of `num_parts` warps.
struct TileShare {
  std::uint32_t part = 0;
  std::uint32_t num_parts = 1;
};

/// Elements that a lane moves at once, side by side along K.
template <std::uint32_t Width>
struct ElementGroup {
  using Word = std::conditional_t<Width == 8, uint4, std::conditional_t<Width == 4, uint2, std::uint16_t>>;
};

__device__ inline std::uint32_t high_bytes(std::uint32_t x, std::uint32_t y, std::uint32_t shift) {
  return __byte_perm(x >> shift, y >> shift, 0x6420);
}
__device__ inline std::uint32_t low_bytes(std::uint32_t x, std::uint32_t y, std::uint32_t shift) {
  return __byte_perm(x, y, 0x6420) & ((1u << shift) - 1) * 0x0101'0101u;
}

/// Writes a group of elements, split into high and low bytes, at an element row of the tile and a place along K.
template <std::uint32_t Width>
__device__ inline void split_group(typename ElementGroup<Width>::Word group, std::uint32_t row, std::uint32_t k,
                                   const TileSource& source, std::uint8_t* tile) {
  const std::uint32_t planes = source.grid.num_planes;
  const std::uint32_t shift = source.shift;
  std::uint8_t* const high = tile + tile_byte(row, 0, k, planes);
  std::uint8_t* const low = tile + tile_byte(row, 1, k, planes);
  if constexpr (Width == 8) {
    *reinterpret_cast<uint2*>(high) = {high_bytes(group.x, group.y, shift), high_bytes(group.z, group.w, shift)};
    if (planes == 2) {
      *reinterpret_cast<uint2*>(low) = {low_bytes(group.x, group.y, shift), low_bytes(group.z, group.w, shift)};
    }
  } else if constexpr (Width == 4) {
    *reinterpret_cast<std::uint32_t*>(high) = high_bytes(group.x, group.y, shift);
    if (planes == 2) *reinterpret_cast<std::uint32_t*>(low) = low_bytes(group.x, group.y, shift);
  } else {
    *high = static_cast<std::uint8_t>(group >> shift);
    if (planes == 2) *low = static_cast<std::uint8_t>(group & ((1u << shift) - 1));
  }
}

/// Writes the elements of a run of blocks that lie in the tile. first_line, first_k: row index or block column that it
/// begins with, and element along K.
/// Work: a lane takes kAtOnce groups of elements of a row of a block at a time, so that as many loads are in flight.
template <bool AlongRow, std::uint32_t Width>
__device__ inline void fill_run(const TileSource& source, const TileRun& run, std::uint32_t first_line,
                                std::uint32_t first_k, const TileShare& share, std::uint8_t* tile) {
  using Word = typename ElementGroup<Width>::Word;
  constexpr std::uint32_t kAtOnce = 4;
  const OperandView& operand = source.operand;
  const std::uint32_t m = source.grid.m;
  const std::uint32_t groups = m / Width;  // of a row of a block
  const std::uint32_t count = (run.end - run.begin) * groups * m;
  const std::uint32_t step = share.num_parts * 32;
  for (std::uint32_t first = share.part * 32 + threadIdx.x % 32; first < count; first += kAtOnce * step) {
    Word values[kAtOnce];
    std::uint32_t rows[kAtOnce];
    std::uint32_t k[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t x = first + u * step;
      k[u] = kTileDepth;
      if (x >= count) continue;
      const std::uint32_t p = run.begin + x / (groups * m);
      const std::uint32_t r = x / groups % m;
      const std::uint32_t kk = x % groups * Width;
      const std::uint32_t column = operand.index.columns[p];
      rows[u] = ((AlongRow ? run.row : column) - first_line) * m + r;
      k[u] = (AlongRow ? column : run.row) * m + kk - first_k;  // before the tile: wraps to a large number
      if (k[u] >= kTileDepth) continue;
      const std::uint64_t block = operand.numbers == nullptr ? p : operand.numbers[p];
      values[u] = *reinterpret_cast<const Word*>(operand.values + (block * m + r) * m + kk);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (k[u] < kTileDepth) split_group<Width>(values[u], rows[u], k[u], source, tile);
    }
  }
}

/// Row index of the first stored row that is not before a block row.
/// Threads: one whole warp.
__device__ inline std::uint32_t find_row(const CompressedView& index, std::uint32_t nb, std::uint32_t block_row) {
  const std::uint32_t missing = nb - index.num_rows;  // no more rows than that are left out before it
  return warp_lower_bound(index.rows, block_row < missing ? 0 : block_row - missing, min(block_row, index.num_rows),
                          block_row);
}

/// Writes the blocks of the operand that lie in the tile.
/// Work: a warp per row of the index, or several if there are fewer rows than warps.
template <bool AlongRow, std::uint32_t Width>
__device__ void fill_tile(const TileSource& source, const OperandTile& placed, std::uint8_t* tile) {
  const TileGrid& grid = source.grid;
  const CompressedView& index = source.operand.index;
  const std::uint32_t first_k_block = grid.first_k_block(placed.k);
  const std::uint32_t end_k_block = grid.end_k_block(placed.k);
  std::uint32_t row = 0;  // of the index
  std::uint32_t end_row = 0;
  std::uint32_t first_column = first_k_block;
  std::uint32_t end_column = end_k_block;
  std::uint32_t first_line = 0;  // of the tile: row index or block column
  if constexpr (AlongRow) {
    first_line = placed.line * grid.row_blocks();
    row = first_line;
    end_row = row + grid.rows_of(placed.line);
  } else {
    first_line = placed.line * grid.column_blocks();
    row = find_row(index, grid.nb, first_k_block);
    end_row = find_row(index, grid.nb, end_k_block);
    first_column = first_line;
    end_column = first_line + grid.columns_of(placed.line);
  }
  const std::uint32_t num_rows = end_row - row;
  if (num_rows == 0) return;
  const std::uint32_t warps_per_row = max(1u, kItemWarps / num_rows);
  const TileShare share{.part = threadIdx.x / 32 % warps_per_row, .num_parts = warps_per_row};
  for (row += threadIdx.x / 32 / warps_per_row; row < end_row; row += kItemWarps / warps_per_row) {
    const std::uint32_t begin = index.offsets[row];
    const std::uint32_t end = index.offsets[row + 1];
    const TileRun run{.begin = warp_lower_bound(index.columns, begin, end, first_column),
                      .end = warp_lower_bound(index.columns, begin, end, end_column),
                      .row = AlongRow ? row : index.rows[row]};
    fill_run<AlongRow, Width>(source, run, first_line, placed.k * kTileDepth, share, tile);
  }
}

// Grid: a CTA per tile.
// Work: the CTA clears its tile, writes blocks into it and copies it out.
// Memory: blocks are read contiguously; the tile is assembled in shared memory, where the swizzle keeps banks apart,
// and
//         written as one piece.
template <bool AlongRow, std::uint32_t Width>
__global__ void __launch_bounds__(kItemThreads)
    expand_tiles(TileSource source, const OperandTile* tiles, std::uint8_t* bytes) {
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
void expand(const TileSource& source, const OperandTile* tiles, unsigned count, std::uint8_t* bytes,
            cudaStream_t stream) {
  if (source.grid.m % 8 == 0) {
    expand_tiles<AlongRow, 8><<<count, kItemThreads, 0, stream>>>(source, tiles, bytes);
  } else if (source.grid.m % 4 == 0) {
    expand_tiles<AlongRow, 4><<<count, kItemThreads, 0, stream>>>(source, tiles, bytes);
  } else {
    expand_tiles<AlongRow, 1><<<count, kItemThreads, 0, stream>>>(source, tiles, bytes);
  }
}

}  // namespace

void launch_expand_tiles(const OperandView& operand, const TileGrid& grid, bool along_row, std::uint32_t shift,
                         const OperandTile* tiles, std::uint64_t count, std::uint8_t* bytes, cudaStream_t stream) {
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
