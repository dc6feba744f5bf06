// Blocks of an operand -> tiles of byte planes, only those that are not empty.
#include <type_traits>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/tiles/launch.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

/// Elements that a lane moves at once, side by side along K.
template <std::uint32_t Width>
struct ElementGroup {
  using Word = std::conditional_t<Width == 8, uint4, std::conditional_t<Width == 4, uint2, std::uint16_t>>;
};

/// Parts of elements that become bytes of a plane.
enum class Part : std::uint8_t { high, low, sum };

/// The bytes of a plane of four elements, two to a word. Sums do not carry.
__device__ inline std::uint32_t bytes_of(Part part, std::uint32_t x, std::uint32_t y, std::uint32_t shift) {
  const std::uint32_t high = __byte_perm(x >> shift, y >> shift, 0x6420);
  if (part == Part::high) return high;
  const std::uint32_t low = __byte_perm(x, y, 0x6420) & ((1u << shift) - 1) * 0x0101'0101u;
  return part == Part::low ? low : high + low;
}

/// Writes one plane of a group of elements at its place in the tile.
template <std::uint32_t Width>
__device__ inline void write_plane(typename ElementGroup<Width>::Word group, Part part, std::uint32_t shift,
                                   std::uint8_t* to) {
  if constexpr (Width == 8) {
    *reinterpret_cast<uint2*>(to) = {bytes_of(part, group.x, group.y, shift), bytes_of(part, group.z, group.w, shift)};
  } else if constexpr (Width == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = bytes_of(part, group.x, group.y, shift);
  } else {
    *to = static_cast<std::uint8_t>(bytes_of(part, group, 0, shift));
  }
}

/// Row index of the first stored row that is not before a block row.
/// Threads: one whole warp.
__device__ inline std::uint32_t find_row(const CompressedView& index, std::uint32_t nb, std::uint32_t block_row) {
  const std::uint32_t missing = nb - index.num_rows;  // no more rows than that are left out before it
  return warp_lower_bound(index.rows, block_row < missing ? 0 : block_row - missing, min(block_row, index.num_rows),
                          block_row);
}

/// Writes the elements of the operand that lie in a tile. Part: of elements, in tiles of one plane.
/// Work: a group of lanes per row of the index, or several warps if there are few rows. A lane takes kAtOnce groups of
/// elements of a row of a block at a time, so that as many loads are in flight.
/// Shapes: to: kTileBytesA or kTileBytesB, shared, zeros before. Threads: all of the CTA.
template <bool AlongRow, std::uint32_t Width>
__device__ void fill_tile(const TileSource& source, OperandTile tile, Part part, std::uint8_t* to) {
  using Word = typename ElementGroup<Width>::Word;
  constexpr std::uint32_t kAtOnce = 4;
  const OperandView& operand = source.operand;
  const CompressedView& index = operand.index;
  const TileGrid& grid = source.grid;
  const std::uint32_t m = grid.m;
  const std::uint32_t planes = grid.planes_of_tile();
  const std::uint32_t num_lines = AlongRow ? grid.row_elements() : grid.column_elements();
  const std::uint32_t num_blocks = AlongRow ? grid.num_rows : grid.num_columns;
  const std::uint32_t first_line = tile.line * num_lines;  // elements across K
  const std::uint32_t first_k = tile.k * kTileDepth;
  const std::uint32_t first_block = source.first + first_line / m;
  const std::uint32_t end_block = source.first + min((first_line + num_lines - 1) / m + 1, num_blocks);
  const std::uint32_t first_k_block = grid.first_k_block(tile.k);
  const std::uint32_t end_k_block = grid.end_k_block(tile.k);
  const std::uint32_t first_row = AlongRow ? first_block : find_row(index, grid.nb, first_k_block);  // of the index
  const std::uint32_t num_rows = (AlongRow ? end_block : find_row(index, grid.nb, end_k_block)) - first_row;
  const std::uint32_t first_column = AlongRow ? first_k_block : first_block;
  const std::uint32_t num_columns = (AlongRow ? end_k_block : end_block) - first_column;
  std::uint32_t lanes = 32;
  while (kItemThreads / lanes < num_rows) lanes /= 2;  // a tile has 128 rows at most
  const std::uint32_t num_groups = num_rows == 0 ? 1 : max(1u, kItemThreads / lanes / num_rows);  // of a row
  const std::uint32_t x = threadIdx.x / lanes / num_groups;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t row = 0;  // A: row index, B: block row
  if (x < num_rows) {
    begin = index.offsets[first_row + x];
    end = index.offsets[first_row + x + 1];
    row = AlongRow ? first_row + x : index.rows[first_row + x];
  }
  begin = warp_lower_bound(index.columns, begin, end, first_column, lanes);
  end = warp_lower_bound(index.columns, begin, min(end, begin + num_columns), first_column + num_columns, lanes);
  const std::uint32_t per_row = m / Width;  // groups of elements of a row of a block
  const std::uint32_t count = (end - begin) * per_row * m;
  const std::uint32_t step = lanes * num_groups;
  for (std::uint32_t first = threadIdx.x % step; first < count; first += kAtOnce * step) {
    Word values[kAtOnce];
    std::uint32_t lines[kAtOnce];
    std::uint32_t k[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t at = first + u * step;
      k[u] = kTileDepth;
      if (at >= count) continue;
      const std::uint32_t p = begin + at / (per_row * m);
      const std::uint32_t r = at / per_row % m;
      const std::uint32_t kk = at % per_row * Width;
      const std::uint32_t column = index.columns[p];
      // Before the tile: wraps to a large number.
      lines[u] = ((AlongRow ? row : column) - source.first) * m + r - first_line;
      if (lines[u] >= num_lines) continue;
      k[u] = (AlongRow ? column : row) * m + kk - first_k;
      if (k[u] >= kTileDepth) continue;
      values[u] = *reinterpret_cast<const Word*>(operand.values + (std::uint64_t{operand.number(p)} * m + r) * m + kk);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (k[u] >= kTileDepth) continue;
      write_plane<Width>(values[u], part, source.shift, to + tile_byte(lines[u], 0, k[u], planes));
      if (planes == 2) {
        write_plane<Width>(values[u], Part::low, source.shift, to + tile_byte(lines[u], 1, k[u], planes));
      }
    }
  }
}

// Grid: a CTA per tile, those of all sets in turn.
// Work: the CTA clears its tile, writes blocks into it and copies it out.
// Memory: blocks are read contiguously; the tile is assembled in shared memory, where the swizzle keeps banks apart,
//         and written as one piece. CTAs that read the same blocks for several sets are neighbours.
template <bool AlongRow, std::uint32_t Width>
__global__ void __launch_bounds__(kItemThreads)
    expand_tiles(TileSource source, const OperandTile* tiles, std::uint64_t count, std::uint8_t* bytes) {
  constexpr std::uint32_t kBytes = AlongRow ? kTileBytesA : kTileBytesB;
  __shared__ uint4 data[kBytes / 16];
  const std::uint32_t sets = source.grid.num_sets();
  const std::uint32_t set = blockIdx.x % sets;
  const std::uint32_t x = blockIdx.x / sets;
  const std::uint32_t k_tiles = source.grid.num_k_tiles();
  const OperandTile tile = tiles != nullptr ? tiles[x] : OperandTile{.line = x / k_tiles, .k = x % k_tiles};
  for (std::uint32_t w = threadIdx.x; w < kBytes / 16; w += kItemThreads) data[w] = uint4{0, 0, 0, 0};
  __syncthreads();  // the tile is clear
  fill_tile<AlongRow, Width>(source, tile, static_cast<Part>(set), reinterpret_cast<std::uint8_t*>(data));
  __syncthreads();  // the tile is complete
  uint4* const to = reinterpret_cast<uint4*>(bytes + (set * count + x) * kBytes);
  for (std::uint32_t w = threadIdx.x; w < kBytes / 16; w += kItemThreads) to[w] = data[w];
}

template <bool AlongRow>
void expand(const TileSource& source, const OperandTile* tiles, std::uint64_t count, std::uint8_t* bytes,
            cudaStream_t stream) {
  const std::uint32_t m = source.grid.m;
  const auto kernel = m % 8 == 0   ? expand_tiles<AlongRow, 8>
                      : m % 4 == 0 ? expand_tiles<AlongRow, 4>
                                   : expand_tiles<AlongRow, 1>;
  kernel<<<static_cast<unsigned>(count * source.grid.num_sets()), kItemThreads, 0, stream>>>(source, tiles, count,
                                                                                             bytes);
  check_launch("expand_tiles");
}

}  // namespace

void launch_expand_tiles(const TileSource& source, const OperandTile* tiles, std::uint64_t count, std::uint8_t* bytes,
                         cudaStream_t stream) {
  if (count == 0) return;
  if (source.along_row) {
    expand<true>(source, tiles, count, bytes, stream);
  } else {
    expand<false>(source, tiles, count, bytes, stream);
  }
}

}  // namespace spmm::kernels
