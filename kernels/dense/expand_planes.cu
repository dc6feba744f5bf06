// Blocks of an operand -> dense byte planes for the tensor-core kernel.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"

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
struct Run {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Blocks of a row with columns in [first, last).
/// Threads: one whole warp.
__device__ inline Run find_run(const CompressedView& index, std::uint32_t row_index, std::uint64_t first,
                               std::uint64_t last) {
  const std::uint64_t begin = index.offsets[row_index];
  const std::uint64_t end = index.offsets[row_index + 1];
  const std::uint32_t lane = threadIdx.x % 32;  // the first lanes find the two ends, together
  const auto wanted = static_cast<std::uint32_t>(min(lane == 0 ? first : last, std::uint64_t{kNoRow}));
  const std::uint64_t found = lane < 2 ? lower_bound(index.columns, begin, end, wanted) : 0;
  return {__shfl_sync(~0u, found, 0), __shfl_sync(~0u, found, 1)};
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
  for (row_index += threadIdx.x / 32; row_index < row_end; row_index += kItemThreads / 32) {
    const Run run = find_run(index, static_cast<std::uint32_t>(row_index), first_column, last_column);
    const std::uint64_t row =
        along ? row_index - range.first_row - tile.first_row_block : index.rows[row_index] - tile.first_k_block;
    for (std::uint64_t x = threadIdx.x % 32; x < (run.end - run.begin) * m; x += 32) {
      const std::uint64_t p = run.begin + x / m;
      const auto r = static_cast<std::uint32_t>(x % m);
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
  for (std::uint32_t x = threadIdx.x; x < rows * planes.num_planes * words; x += kItemThreads) {
    const std::uint32_t row = x / words / planes.num_planes;
    const std::uint32_t part = x / words % planes.num_planes;
    const std::uint64_t to = plane_row(first_row + row, part, planes.num_planes);
    const auto* const high = reinterpret_cast<const Word*>(tile.data + row * tile.row_bytes);
    const auto* const low = reinterpret_cast<const Word*>(tile.data + row * tile.row_bytes + tile.width);
    Word value = part == 1 ? low[x % words] : high[x % words];
    if (part == 2) value = add_bytes(value, low[x % words]);
    reinterpret_cast<Word*>(planes.data + to * planes.stride_bytes + first_byte)[x % words] = value;
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
