// Blocks of an operand -> dense byte planes for the tensor-core kernel.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/dense/launch.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kTileRows = 64;    // element rows of a tile, about
constexpr std::uint32_t kTileBytes = 256;  // bytes along K of a tile, about
constexpr std::uint32_t kPadding = 16;     // bytes between element rows, so that rows use different banks
constexpr std::uint32_t kMaxTile = kTileRows * (2 * kTileBytes + kPadding);

/// A tile: some block rows of the planes times some blocks along K.
struct TileShape {
  std::uint32_t row_blocks;
  std::uint32_t k_blocks;
};

/// The tile of one CTA, in shared memory.
struct PlaneTile {
  std::uint8_t* data;  // [rows, {high, low} width + padding]; sums are made when they are written
  std::uint32_t width;
  std::uint32_t row_bytes;
  std::uint64_t first_row_block;
  std::uint64_t first_k_block;
};

/// Blocks [begin, end) of a row.
struct BlockRange {
  std::uint64_t begin;
  std::uint64_t end;
};

constexpr std::uint32_t kWarps = kItemThreads / 32;
constexpr std::uint32_t kRunsAtOnce = 16;  // rows whose blocks a warp looks for at the same time

/// Where blocks with columns in [first, last) begin and end in every kWarps-th of the rows [row_index, row_end):
/// lane 2x has where they begin in the x-th of them, lane 2x + 1 where they end.
__device__ inline std::uint64_t find_runs(const CompressedView& index, std::uint64_t row_index, std::uint64_t row_end,
                                          std::uint64_t first, std::uint64_t last) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint64_t row = row_index + lane / 2 * kWarps;
  if (row >= row_end) return 0;
  const auto wanted = static_cast<std::uint32_t>(min(lane % 2 == 0 ? first : last, std::uint64_t{kNoRow}));
  return lower_bound(index.columns, index.offsets[row], index.offsets[row + 1], wanted);
}

/// Writes a row of a block, split into high and low bytes.
/// Shapes: high, low [m] in shared memory; low null = one plane.
__device__ inline void split_row(const std::uint16_t* from, std::uint32_t m, std::uint32_t shift, std::uint8_t* high,
                                 std::uint8_t* low) {
  const std::uint32_t mask = (1u << shift) - 1;
  if (m % 4 == 0) {
    for (std::uint32_t k = 0; k < m; k += 4) {
      const uint2 four = *reinterpret_cast<const uint2*>(from + k);
      *reinterpret_cast<std::uint32_t*>(high + k) = __byte_perm(four.x >> shift, four.y >> shift, 0x6420);
      if (low == nullptr) continue;
      *reinterpret_cast<std::uint32_t*>(low + k) = __byte_perm(four.x, four.y, 0x6420) & mask * 0x0101'0101u;
    }
    return;
  }
  for (std::uint32_t k = 0; k < m; ++k) {
    high[k] = static_cast<std::uint8_t>(from[k] >> shift);
    if (low != nullptr) low[k] = static_cast<std::uint8_t>(from[k] & mask);
  }
}

/// Writes the blocks of the operand that lie in the tile.
/// Work: a warp takes the rows of the index in turn, a lane a row of a block.
__device__ __forceinline__ void fill_tile(const OperandView& operand, const PlaneRange& range, const TileShape& shape,
                                          std::uint32_t m, const BytePlanes& planes, const PlaneTile& tile) {
  const CompressedView& index = operand.index;
  const bool along = range.along_row;
  std::uint64_t row_index = range.first_row + tile.first_row_block;
  std::uint64_t row_end = min(row_index + shape.row_blocks, std::uint64_t{range.first_row} + range.num_rows);
  if (!along) {
    const std::uint64_t last = range.first_row + std::uint64_t{range.num_rows};
    const std::uint64_t last_k = min(tile.first_k_block + shape.k_blocks, std::uint64_t{kNoRow});
    row_index = lower_bound(index.rows, range.first_row, last, static_cast<std::uint32_t>(tile.first_k_block));
    row_end = lower_bound(index.rows, row_index, last, static_cast<std::uint32_t>(last_k));
  }
  const std::uint64_t first_column = along ? tile.first_k_block : range.first_column + tile.first_row_block;
  const std::uint64_t last_column = along ? tile.first_k_block + shape.k_blocks
                                          : min(first_column + shape.row_blocks, std::uint64_t{range.end_column});
  std::uint64_t found = 0;
  std::uint32_t next = kRunsAtOnce;  // of those that are found
  for (row_index += threadIdx.x / 32; row_index < row_end; row_index += kWarps, ++next) {
    if (next == kRunsAtOnce) {
      found = find_runs(index, row_index, row_end, first_column, last_column);
      next = 0;
    }
    const BlockRange run{.begin = __shfl_sync(~0u, found, 2 * next), .end = __shfl_sync(~0u, found, 2 * next + 1)};
    const std::uint64_t row =
        along ? row_index - range.first_row - tile.first_row_block : index.rows[row_index] - tile.first_k_block;
    const std::uint32_t items = static_cast<std::uint32_t>(run.end - run.begin) * m;  // a tile's at most
    for (std::uint32_t x = threadIdx.x % 32; x < items; x += 32) {
      const std::uint64_t p = run.begin + x / m;
      const std::uint32_t r = x % m;
      const std::uint64_t column = index.columns[p] - first_column;
      const std::uint64_t block = operand.numbers == nullptr ? p : operand.numbers[p];
      std::uint8_t* const high =
          tile.data + ((along ? row : column) * m + r) * tile.row_bytes + (along ? column : row) * m;
      split_row(operand.values + (block * m + r) * m, m, planes.shift, high,
                planes.num_planes > 1 ? high + tile.width : nullptr);
    }
  }
}

/// Sums of packed bytes, none of which exceeds a byte. Larger words than bytes are added as a whole: nothing carries.
__device__ inline std::uint8_t add_bytes(std::uint8_t x, std::uint8_t y) {
  return static_cast<std::uint8_t>(x + y);
}
__device__ inline std::uint32_t add_bytes(std::uint32_t x, std::uint32_t y) {
  return x + y;
}
__device__ inline uint4 add_bytes(uint4 x, uint4 y) {
  return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
}

/// Writes the tile to the planes, by words of `Word`.
template <class Word>
__device__ __forceinline__ void write_tile(const PlaneTile& tile, std::uint64_t first_row, std::uint32_t rows,
                                           std::uint64_t first_byte, std::uint32_t bytes, const BytePlanes& planes) {
  const std::uint32_t words = bytes / sizeof(Word);
  for (std::uint32_t x = threadIdx.x; x < rows * words; x += kItemThreads) {
    const std::uint32_t row = x / words;
    const std::uint32_t word = x % words;
    const auto* const from = reinterpret_cast<const Word*>(tile.data + row * tile.row_bytes);
    std::uint8_t* const to =
        planes.data + plane_row(first_row + row, 0, planes.num_planes) * planes.stride_bytes + first_byte;
    const Word high = from[word];
    reinterpret_cast<Word*>(to)[word] = high;
    if (planes.num_planes == 1) continue;
    const Word low = reinterpret_cast<const Word*>(tile.data + row * tile.row_bytes + tile.width)[word];
    reinterpret_cast<Word*>(to + 8 * planes.stride_bytes)[word] = low;  // the next plane lies 8 plane rows below
    if (planes.num_planes == 3) reinterpret_cast<Word*>(to + 16 * planes.stride_bytes)[word] = add_bytes(high, low);
  }
}

// Grid: x = tiles along K, y = tiles of rows.
// Work: the CTA clears its tile, writes blocks into it and copies it out, zeros included, so that the planes need not
// be
//       cleared.
// Memory: blocks are read contiguously; a tile is assembled in shared memory and written in runs of kTileBytes.
__global__ void __launch_bounds__(kItemThreads)
    expand_planes(OperandView operand, PlaneRange range, TileShape shape, std::uint32_t m, BytePlanes planes) {
  __shared__ __align__(16) std::uint8_t data[kMaxTile];
  const std::uint32_t width = shape.k_blocks * m;
  const PlaneTile tile{.data = data,
                       .width = width,
                       .row_bytes = width * min(planes.num_planes, 2u) + kPadding,
                       .first_row_block = std::uint64_t{blockIdx.y} * shape.row_blocks,
                       .first_k_block = std::uint64_t{blockIdx.x} * shape.k_blocks};
  for (std::uint32_t x = threadIdx.x; x < (shape.row_blocks * m * tile.row_bytes + 15) / 16; x += kItemThreads) {
    reinterpret_cast<uint4*>(data)[x] = uint4{0, 0, 0, 0};
  }
  __syncthreads();  // the tile is clear
  fill_tile(operand, range, shape, m, planes, tile);
  __syncthreads();  // the tile is complete

  const std::uint64_t first_row = tile.first_row_block * m;
  const std::uint64_t first_byte = tile.first_k_block * m;
  const std::uint64_t num_rows = planes.num_rows / planes.num_planes;
  const auto rows = static_cast<std::uint32_t>(min(std::uint64_t{shape.row_blocks * m}, num_rows - first_row));
  const auto bytes = static_cast<std::uint32_t>(min(std::uint64_t{width}, planes.stride_bytes - first_byte));
  if (width % 16 == 0) {
    write_tile<uint4>(tile, first_row, rows, first_byte, bytes, planes);
  } else if (width % 4 == 0) {
    write_tile<std::uint32_t>(tile, first_row, rows, first_byte, bytes, planes);
  } else {
    write_tile<std::uint8_t>(tile, first_row, rows, first_byte, bytes, planes);
  }
}

}  // namespace

void launch_expand_planes(const OperandView& operand, const PlaneRange& range, std::uint32_t m,
                          const BytePlanes& planes, cudaStream_t stream) {
  const std::uint32_t k_blocks = std::max(1u, kTileBytes / m);
  const std::uint32_t step = k_blocks >= 16 ? 16 : k_blocks >= 4 ? 4 : 1;  // tiles of whole words
  const TileShape shape{.row_blocks = std::max(1u, kTileRows / m), .k_blocks = k_blocks / step * step};
  const std::uint64_t rows = planes.num_rows / planes.num_planes;
  const auto blocks = [](std::uint64_t elements, std::uint32_t per_tile) {
    return static_cast<unsigned>((elements + per_tile - 1) / per_tile);
  };
  const dim3 grid(blocks(planes.stride_bytes, shape.k_blocks * m), blocks(rows, shape.row_blocks * m));
  constexpr unsigned kMaxGridRows = 65'535;
  if (grid.y > kMaxGridRows) throw CudaError("expand_planes: more rows than a launch has CTAs");
  expand_planes<<<grid, kItemThreads, 0, stream>>>(operand, range, shape, m, planes);
  check_launch("expand_planes");
}

}  // namespace spmm::kernels
