// Blocks of an operand -> dense byte planes for the tensor-core kernel.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kTileRows = 64;    // element rows of a tile, about
constexpr std::uint32_t kTileBytes = 256;  // bytes along K of a tile, about
constexpr std::uint32_t kPadding = 16;     // bytes between element rows, so that rows lie in different banks
constexpr std::uint32_t kMaxTile = kTileRows * (2 * kTileBytes + kPadding);

/// A tile: some block rows of the planes times some blocks along K.
struct TileShape {
  std::uint32_t row_blocks;
  std::uint32_t k_blocks;
};

/// One line's blocks within a tile.
struct Run {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Blocks of a line with inner in [first, last).
__device__ inline Run find_run(const CompressedView& index, std::uint32_t slot, std::uint64_t first,
                               std::uint64_t last) {
  const std::uint64_t begin = index.offsets[slot];
  const std::uint64_t end = index.offsets[slot + 1];
  const std::uint32_t lane = threadIdx.x % 32;  // the first lanes find the two ends, together
  const auto wanted = static_cast<std::uint32_t>(min(lane == 0 ? first : last, std::uint64_t{kNoRow}));
  const std::uint64_t found = lane < 2 ? lower_bound(index.columns, begin, end, wanted) : 0;
  return {__shfl_sync(~0u, found, 0), __shfl_sync(~0u, found, 1)};
}

/// Writes row r of a block, split into high and low bytes. Shapes: high, low [m] in shared memory; low null = one
/// plane.
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

// Grid: x = tiles along K, y = tiles of rows.
// Work: a warp takes the lines of the tile in turn, a lane a row of a block; the tile is then copied out as it is,
// zeros included,
//       so the planes need not be cleared.
// Memory: blocks are read contiguously; a tile is put together in shared memory and written in runs of kTileBytes.
__global__ void __launch_bounds__(kItemThreads)
    expand_planes(OperandView operand, PlaneRange range, TileShape shape, std::uint32_t m, BytePlanes planes) {
  __shared__ __align__(16) std::uint8_t tile[kMaxTile];  // [rows, {high, low} width + padding]
  const std::uint32_t width = shape.k_blocks * m;
  const std::uint32_t row_bytes = width * planes.num_planes + kPadding;
  const std::uint64_t first_row_block = std::uint64_t{blockIdx.y} * shape.row_blocks;
  const std::uint64_t first_k_block = std::uint64_t{blockIdx.x} * shape.k_blocks;
  for (std::uint32_t x = threadIdx.x; x < (shape.row_blocks * m * row_bytes + 15) / 16; x += kItemThreads) {
    reinterpret_cast<uint4*>(tile)[x] = uint4{0, 0, 0, 0};
  }
  __syncthreads();  // the tile is clear

  const CompressedView& index = operand.index;
  const bool along = range.along_row;
  std::uint64_t slot = range.first_row + first_row_block;
  std::uint64_t last_slot = min(slot + shape.row_blocks, std::uint64_t{range.first_row} + range.num_rows);
  if (!along) {
    const std::uint64_t last = range.first_row + std::uint64_t{range.num_rows};
    const std::uint64_t last_k = min(first_k_block + shape.k_blocks, std::uint64_t{kNoRow});
    slot = lower_bound(index.rows, range.first_row, last, static_cast<std::uint32_t>(first_k_block));
    last_slot = lower_bound(index.rows, slot, last, static_cast<std::uint32_t>(last_k));
  }
  const std::uint64_t first_inner = along ? first_k_block : range.first_column + first_row_block;
  const std::uint64_t last_inner =
      along ? first_k_block + shape.k_blocks : min(first_inner + shape.row_blocks, std::uint64_t{range.end_column});
  for (slot += threadIdx.x / 32; slot < last_slot; slot += kItemThreads / 32) {
    const Run run = find_run(index, static_cast<std::uint32_t>(slot), first_inner, last_inner);
    const std::uint64_t line = along ? slot - range.first_row - first_row_block : index.rows[slot] - first_k_block;
    for (std::uint64_t x = threadIdx.x % 32; x < (run.end - run.begin) * m; x += 32) {
      const std::uint64_t p = run.begin + x / m;
      const auto r = static_cast<std::uint32_t>(x % m);
      const std::uint64_t within = index.columns[p] - first_inner;
      const std::uint64_t block = operand.numbers == nullptr ? p : operand.numbers[p];
      std::uint8_t* const high = tile + ((along ? line : within) * m + r) * row_bytes + (along ? within : line) * m;
      split_row(operand.values + (block * m + r) * m, m, planes.shift, high,
                planes.num_planes == 2 ? high + width : nullptr);
    }
  }
  __syncthreads();  // the tile is complete

  const std::uint64_t first_row = first_row_block * m;
  const std::uint64_t num_rows = planes.num_rows / planes.num_planes;
  const auto rows = static_cast<std::uint32_t>(min(std::uint64_t{shape.row_blocks * m}, num_rows - first_row));
  const auto bytes = static_cast<std::uint32_t>(min(std::uint64_t{width}, planes.stride_bytes - first_k_block * m));
  const auto copy = [&](auto word) {
    using Word = decltype(word);
    const std::uint32_t words = bytes / sizeof(Word);
    for (std::uint32_t x = threadIdx.x; x < rows * planes.num_planes * words; x += kItemThreads) {
      const std::uint32_t row = x / words / planes.num_planes;
      const std::uint32_t part = x / words % planes.num_planes;
      const std::uint64_t to = plane_row(first_row + row, part, planes.num_planes);
      const auto* const from = reinterpret_cast<const Word*>(tile + row * row_bytes + part * width);
      reinterpret_cast<Word*>(planes.data + to * planes.stride_bytes + first_k_block * m)[x % words] = from[x % words];
    }
  };
  if (width % 16 == 0) {
    copy(uint4{});
  } else if (width % 4 == 0) {
    copy(std::uint32_t{});
  } else {
    copy(std::uint8_t{});
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
