// Dense u16 matrices -> byte planes for the tensor-core kernel, K contiguous.
#include "kernels/byte_mma.cuh"
#include "kernels/check.hpp"
#include "kernels/dense/launch.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

/// Elements [0, count) of a run of eight, zeros behind them; one load if that is aligned.
__device__ uint4 load_eight(const std::uint16_t* from, std::uint64_t count, bool aligned) {
  if (aligned && count >= 8) return __ldg(reinterpret_cast<const uint4*>(from));
  std::uint32_t words[4] = {};
#pragma unroll
  for (unsigned e = 0; e < 8; ++e) {
    if (e < count) words[e / 2] |= std::uint32_t{from[e]} << (e % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

/// Bytes of 16 u16, packed.
struct ByteRuns {
  uint4 high;
  uint4 low;
};

__device__ ByteRuns split_sixteen(const std::uint32_t (&words)[8]) {
  BytePair four[4];
#pragma unroll
  for (unsigned q = 0; q < 4; ++q) four[q] = split_bytes({words[2 * q], words[2 * q + 1]});
  return {.high = {four[0].high, four[1].high, four[2].high, four[3].high},
          .low = {four[0].low, four[1].low, four[2].low, four[3].low}};
}

/// Moves bits of four packed low bytes up to the high ones, if elements are to be cut at bit `shift` instead of 8.
/// Values: high bytes < 1 << shift when they have them.
__device__ void move_cut(std::uint32_t& high, std::uint32_t& low, std::uint32_t shift) {
  constexpr std::uint32_t kEach = 0x0101'0101;
  high = high << (8 - shift) | (low >> shift & kEach * (0xFFu >> shift));
  low &= kEach * ((1u << shift) - 1);
}

/// Writes bytes [byte, byte + 16) of all planes of an element row.
__device__ void store_planes(const BytePlanes& planes, std::uint64_t row, std::uint64_t byte, ByteRuns runs) {
  const std::uint64_t step = 8 * planes.stride_bytes;  // the next plane lies 8 plane rows below
  std::uint8_t* const high = planes.data + plane_row(row, 0, planes.num_planes) * planes.stride_bytes + byte;
  if (planes.num_planes == 3) {
    move_cut(runs.high.x, runs.low.x, planes.shift);
    move_cut(runs.high.y, runs.low.y, planes.shift);
    move_cut(runs.high.z, runs.low.z, planes.shift);
    move_cut(runs.high.w, runs.low.w, planes.shift);
    *reinterpret_cast<uint4*>(high + 2 * step) = {runs.high.x + runs.low.x, runs.high.y + runs.low.y,
                                                  runs.high.z + runs.low.z, runs.high.w + runs.low.w};
  }
  *reinterpret_cast<uint4*>(high) = runs.high;
  *reinterpret_cast<uint4*>(high + step) = runs.low;
}

// Grid: one thread per 16 bytes along K of an element row, striding over the grid if there are more.
// Work: neighbouring threads of a row read 32 and write 16 neighbouring bytes to each plane.
// Memory: no shared memory; rows that are not 16-byte aligned are read element by element, from cache.
__global__ void __launch_bounds__(kItemThreads)
    split_rows(const std::uint16_t* a, std::uint32_t rows, std::uint32_t inner, BytePlanes planes) {
  const std::uint64_t chunks = planes.stride_bytes / 16;
  const bool aligned = inner % 8 == 0;
  for_each_item(planes.num_rows / planes.num_planes * chunks, [&](std::uint64_t x) {
    const std::uint64_t row = x / chunks;
    const std::uint64_t first = x % chunks * 16;
    const std::uint64_t count = row < rows && first < inner ? inner - first : 0;
    const std::uint16_t* const from = a + row * inner + first;
    const uint4 left = load_eight(from, count, aligned);
    const uint4 right = load_eight(from + 8, count > 8 ? count - 8 : 0, aligned);
    store_planes(planes, row, first,
                 split_sixteen({left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w}));
  });
}

constexpr unsigned kTileInner = 128;  // K per CTA: 128 contiguous bytes are written
constexpr unsigned kTileColumns = 64;

/// Position of an element in the shared tile: rows of 64, a gap of 8 after every 16 rows, so that 8 lanes that read 16
/// rows apart use different banks.
__device__ unsigned tile_position(unsigned k, unsigned column) {
  return k * kTileColumns + k / 16 * 8 + column;
}

// Grid: one CTA of 256 threads per 128 elements of K and 64 columns of B; columns first.
// Work: a thread reads 8 neighbouring columns of a row into the shared tile, then writes 16 bytes along K to each
//       plane; 8 threads write 128 contiguous bytes.
// Memory: 16.1 KB; reads along columns without bank conflicts.
__global__ void __launch_bounds__(kItemThreads)
    split_columns(const std::uint16_t* b, std::uint32_t inner, std::uint32_t cols, unsigned tiles_across,
                  BytePlanes planes) {
  __shared__ __align__(16) std::uint16_t tile[kTileInner * kTileColumns + kTileInner / 16 * 8];
  const std::uint64_t first_inner = std::uint64_t{blockIdx.x / tiles_across} * kTileInner;
  const std::uint64_t first_column = std::uint64_t{blockIdx.x % tiles_across} * kTileColumns;
  for (unsigned x = threadIdx.x; x < kTileInner * kTileColumns / 8; x += kItemThreads) {
    const unsigned k = x / (kTileColumns / 8);
    const unsigned within = x % (kTileColumns / 8) * 8;
    const std::uint64_t column = first_column + within;
    const std::uint64_t count = first_inner + k < inner && column < cols ? cols - column : 0;
    *reinterpret_cast<uint4*>(&tile[tile_position(k, within)]) =
        load_eight(b + (first_inner + k) * cols + column, count, cols % 8 == 0);
  }
  __syncthreads();  // the tile is complete
  for (unsigned x = threadIdx.x; x < kTileInner / 16 * kTileColumns; x += kItemThreads) {
    const unsigned chunk = x % (kTileInner / 16);
    const unsigned within = x / (kTileInner / 16);
    if (first_column + within >= planes.num_rows / planes.num_planes) continue;
    std::uint32_t words[8];
#pragma unroll
    for (unsigned w = 0; w < 8; ++w) {
      words[w] = tile[tile_position(chunk * 16 + 2 * w, within)] |
                 std::uint32_t{tile[tile_position(chunk * 16 + 2 * w + 1, within)]} << 16;
    }
    store_planes(planes, first_column + within, first_inner + chunk * 16, split_sixteen(words));
  }
}

}  // namespace

void launch_split_rows(const std::uint16_t* a, std::uint32_t rows, std::uint32_t inner, const BytePlanes& planes,
                       cudaStream_t stream) {
  const std::uint64_t items = planes.num_rows / planes.num_planes * (planes.stride_bytes / 16);
  split_rows<<<item_grid(items), kItemThreads, 0, stream>>>(a, rows, inner, planes);
  check_launch("split_rows");
}

void launch_split_columns(const std::uint16_t* b, std::uint32_t inner, std::uint32_t cols, const BytePlanes& planes,
                          cudaStream_t stream) {
  const std::uint64_t across = (std::uint64_t{cols} + kTileColumns - 1) / kTileColumns;
  const std::uint64_t num_ctas = planes.stride_bytes / kTileInner * across;
  split_columns<<<static_cast<unsigned>(num_ctas), kItemThreads, 0, stream>>>(b, inner, cols,
                                                                              static_cast<unsigned>(across), planes);
  check_launch("split_columns");
}

}  // namespace spmm::kernels
