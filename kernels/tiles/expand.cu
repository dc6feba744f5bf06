// Blocks of an operand -> tiles of byte planes, only those that are not empty.
#include <type_traits>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/tiles/launch.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

/// Blocks [begin, end) of one row of the index.
struct TileRun {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t row = 0;  // A: row index, B: block row
};

/// What fills a run: thread `part` of `num_parts`.
struct TileShare {
  std::uint32_t part = 0;
  std::uint32_t num_parts = 1;
};

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

/// The tile of one CTA, in shared memory.
struct Tile {
  OperandTile place;
  Part part;  // of elements: of one plane; two planes have both
  std::uint8_t* data;
};

/// Writes the elements of a run of blocks that lie in the tile.
/// Work: a lane takes kAtOnce groups of elements of a row of a block at a time, so that as many loads are in flight.
template <bool AlongRow, std::uint32_t Width>
__device__ inline void fill_run(const TileSource& source, const TileRun& run, const TileShare& share,
                                const Tile& tile) {
  using Word = typename ElementGroup<Width>::Word;
  constexpr std::uint32_t kAtOnce = 4;
  const OperandView& operand = source.operand;
  const std::uint32_t m = source.grid.m;
  const std::uint32_t planes = source.grid.planes_of_tile();
  const std::uint32_t num_lines = AlongRow ? source.grid.row_elements() : source.grid.column_elements();
  const std::uint32_t first_line = tile.place.line * num_lines;
  const std::uint32_t first_k = tile.place.k * kTileDepth;
  const std::uint32_t groups = m / Width;  // of a row of a block
  const std::uint32_t count = (run.end - run.begin) * groups * m;
  const std::uint32_t step = share.num_parts;
  for (std::uint32_t first = share.part; first < count; first += kAtOnce * step) {
    Word values[kAtOnce];
    std::uint32_t lines[kAtOnce];
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
      // Before the tile: wraps to a large number.
      lines[u] = ((AlongRow ? run.row : column) - source.first) * m + r - first_line;
      if (lines[u] >= num_lines) continue;
      k[u] = (AlongRow ? column : run.row) * m + kk - first_k;
      if (k[u] >= kTileDepth) continue;
      const std::uint64_t block = operand.numbers == nullptr ? p : operand.numbers[p];
      values[u] = *reinterpret_cast<const Word*>(operand.values + (block * m + r) * m + kk);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (k[u] >= kTileDepth) continue;
      write_plane<Width>(values[u], tile.part, source.shift, tile.data + tile_byte(lines[u], 0, k[u], planes));
      if (planes == 2) {
        write_plane<Width>(values[u], Part::low, source.shift, tile.data + tile_byte(lines[u], 1, k[u], planes));
      }
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

/// First position in sorted [begin, end) whose value is not below `wanted`, by a probe of each lane of a group at a
/// time. Threads: a whole warp, in groups of `lanes` (a power of two); those of a group with the same arguments.
__device__ inline std::uint32_t group_lower_bound(const std::uint32_t* sorted, std::uint32_t begin, std::uint32_t end,
                                                  std::uint32_t wanted, std::uint32_t lanes) {
  const std::uint32_t first_lane = threadIdx.x % 32 / lanes * lanes;
  while (__any_sync(~0u, begin != end)) {
    const std::uint32_t piece = (end - begin + lanes - 1) / lanes;  // a lane looks at the last value of one
    const std::uint32_t probe = begin + threadIdx.x % lanes * piece + piece - 1;
    const bool is_below = begin != end && probe < end && sorted[probe] < wanted;
    const std::uint32_t below = __ballot_sync(~0u, is_below) >> first_lane << (32 - lanes);  // of the group
    begin = min(end, begin + static_cast<std::uint32_t>(__popc(below)) * piece);
    end = piece <= 1 ? begin : min(end, begin + piece);
  }
  return begin;
}

/// Writes the blocks of the operand that lie in the tile.
/// Work: a group of lanes per row of the index, or several warps if there are few rows.
template <bool AlongRow, std::uint32_t Width>
__device__ void fill_tile(const TileSource& source, const Tile& tile) {
  const TileGrid& grid = source.grid;
  const CompressedView& index = source.operand.index;
  const std::uint32_t num_lines = AlongRow ? grid.row_elements() : grid.column_elements();
  const std::uint32_t num_blocks = AlongRow ? grid.num_rows : grid.num_columns;
  const std::uint32_t first_line = tile.place.line * num_lines;  // elements across K
  const std::uint32_t first_block = source.first + first_line / grid.m;
  const std::uint32_t end_block = source.first + min((first_line + num_lines - 1) / grid.m + 1, num_blocks);
  const std::uint32_t first_k_block = grid.first_k_block(tile.place.k);
  const std::uint32_t end_k_block = grid.end_k_block(tile.place.k);
  const std::uint32_t first_row = AlongRow ? first_block : find_row(index, grid.nb, first_k_block);  // of the index
  const std::uint32_t num_rows = (AlongRow ? end_block : find_row(index, grid.nb, end_k_block)) - first_row;
  const std::uint32_t first_column = AlongRow ? first_k_block : first_block;
  const std::uint32_t num_columns = (AlongRow ? end_k_block : end_block) - first_column;
  std::uint32_t lanes = 32;
  while (kItemThreads / lanes < num_rows) lanes /= 2;  // a tile has 128 rows at most
  const std::uint32_t groups = num_rows == 0 ? 1 : max(1u, kItemThreads / lanes / num_rows);  // of a row
  const std::uint32_t x = threadIdx.x / lanes / groups;
  const TileShare share{.part = threadIdx.x % (lanes * groups), .num_parts = lanes * groups};
  TileRun run;
  std::uint32_t row_end = 0;
  if (x < num_rows) {
    run.begin = index.offsets[first_row + x];
    row_end = index.offsets[first_row + x + 1];
    run.row = AlongRow ? first_row + x : index.rows[first_row + x];
  }
  run.begin = group_lower_bound(index.columns, run.begin, row_end, first_column, lanes);
  row_end = min(row_end, run.begin + num_columns);
  run.end = group_lower_bound(index.columns, run.begin, row_end, first_column + num_columns, lanes);
  fill_run<AlongRow, Width>(source, run, share, tile);
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
  const Tile tile{.place = tiles != nullptr ? tiles[x] : OperandTile{.line = x / k_tiles, .k = x % k_tiles},
                  .part = static_cast<Part>(set),
                  .data = reinterpret_cast<std::uint8_t*>(data)};
  for (std::uint32_t w = threadIdx.x; w < kBytes / 16; w += kItemThreads) data[w] = uint4{0, 0, 0, 0};
  __syncthreads();  // the tile is clear
  fill_tile<AlongRow, Width>(source, tile);
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
