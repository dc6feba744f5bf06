// For rows that meet many columns: a CTA keeps a stretch of result blocks of one block row in shared memory.
#include <algorithm>
#include <type_traits>

#include "kernels/byte_mma.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"
#include "kernels/row_dot.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 512;
constexpr std::uint32_t kWarps = kThreads / 32;
constexpr std::uint32_t kSharedBytes = 104u << 10;      // two CTAs per multiprocessor of 228 KB
constexpr std::uint32_t kSmallSharedBytes = 44u << 10;  // where a device gives a CTA no more than 48 KB

__host__ __device__ constexpr std::uint32_t bit_words(std::uint32_t elements) {
  return (elements + 31) / 32;
}

/// Sums of a stretch of blocks. An element is a 32-bit sum and a sticky bit: once a carry leaves the sum, it is
/// saturated.
struct Accumulators {
  std::uint32_t* sums;       // [num_tiles, elements], shared
  std::uint32_t* saturated;  // [num_tiles, bit_words], shared, a bit per element
  std::uint32_t elements;

  /// Fits: no sum of this block row can leave 32 bits.
  template <bool Fits>
  __device__ void add(std::uint32_t tile, std::uint32_t e, std::uint64_t value) const {
    std::uint32_t* const sum = sums + tile * elements + e;
    if constexpr (Fits) {
      atomicAdd(sum, static_cast<std::uint32_t>(value));  // several warps may meet in one block
    } else if (value > kMaxVal) {
      saturate_element(tile, e);
    } else {
      const auto low = static_cast<std::uint32_t>(value);
      const std::uint32_t before = atomicAdd(sum, low);  // several warps may meet in one block
      if (before + low < before) saturate_element(tile, e);
    }
  }
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t tile, std::uint32_t e) const {
    const bool is_saturated = saturated[tile * bit_words(elements) + e / 32] >> e % 32 & 1;
    return is_saturated ? kMaxVal : sums[tile * elements + e];
  }

 private:
  __device__ void saturate_element(std::uint32_t tile, std::uint32_t e) const {
    std::uint32_t& word = saturated[tile * bit_words(elements) + e / 32];
    const std::uint32_t bit = 1u << e % 32;
    if ((word & bit) == 0) atomicOr(&word, bit);  // bits only get set: a stale read costs one atomic
  }
};

/// Blocks of B that one block of A meets within the stretch: [first, end).
struct Meeting {
  std::uint32_t first;
  std::uint32_t end;
};

/// The part of B's row behind `slot` that lies in columns [first_column, first_column + num_tiles).
__device__ Meeting find_meeting(const LinesView& b, std::uint32_t slot, std::uint32_t first_column,
                                std::uint32_t num_tiles) {
  if (slot == kNoLine) return {0, 0};
  const std::uint32_t end = b.offsets[slot + 1];
  const std::uint64_t first = lower_bound(b.inner, b.offsets[slot], end, first_column);
  const std::uint32_t last_column = first_column + (num_tiles - 1);
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(upper_bound(b.inner, first, end, last_column))};
}

/// Blocks of B that a lane has in flight: enough to hide the latency of a load behind the products before it.
constexpr std::uint32_t kBatch = 4;

/// Adds one block of A times its meeting. All lanes of a warp call it; block of A in registers, B streamed.
template <std::uint32_t M, bool Fits>
__device__ void add_meeting(const std::uint16_t* a_block, const OperandView& b, Meeting meeting,
                            std::uint32_t first_column, const Accumulators& sums) {
  using Share = LaneShare<M>;
  constexpr std::uint32_t kInFlight = M <= 8 ? kBatch : 1;  // larger blocks would not fit the registers
  constexpr std::uint32_t kStep = 32 / Share::kLanes;
  constexpr int kUnrolledRows = M <= 8 ? Share::kPerLane : 1;
  const std::uint32_t lane = threadIdx.x % Share::kLanes;
  const std::uint32_t side = threadIdx.x % 32 / Share::kLanes;  // which of the blocks that a warp has in hand
  for (std::uint32_t first = meeting.first + side; first < meeting.end; first += kStep * kInFlight) {
    std::uint32_t tiles[kInFlight];
    Line<M> columns[kInFlight];
#pragma unroll
    for (std::uint32_t u = 0; u < kInFlight; ++u) {
      const std::uint32_t q = min(first + u * kStep, meeting.end - 1);
      tiles[u] = __ldg(b.index.inner + q) - first_column;
      columns[u] = Line<M>(b.values + (std::uint64_t{q} * M + lane % M) * M);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kInFlight; ++u) {
      if (first + u * kStep >= meeting.end) break;
#pragma unroll kUnrolledRows
      for (std::uint32_t x = 0; x < Share::kPerLane; ++x) {
        const Line<M> row(a_block + (lane / M + x * Share::kRowStep) * M);
        sums.add<Fits>(tiles[u], lane + x * Share::kLanes, columns[u].dot(row));
      }
    }
  }
}

/// m = 8 on tensor cores: 16 rows are the high and the low bytes of A's block, two products take those of B's.
/// Work: lane -> row lane / 4, columns 2 * (lane % 4) and the next. K is half empty: 8 terms, lanes % 4 < 2 bring them.
template <bool Fits>
__device__ void add_meeting_8(const std::uint16_t* a_block, const OperandView& b, Meeting meeting,
                              std::uint32_t first_column, const Accumulators& sums) {
  const std::uint32_t group = threadIdx.x % 32 / 4;
  const std::uint32_t within = threadIdx.x % 4;
  const bool brings = within < 2;
  const std::uint32_t from = group * 8 + within * 4;  // a row of A, a column of B: four terms
  const BytePair a = brings ? split_bytes(*reinterpret_cast<const uint2*>(a_block + from)) : BytePair{};
  for (std::uint32_t first = meeting.first; first < meeting.end; first += kBatch) {
    std::uint32_t tiles[kBatch];
    uint2 terms[kBatch];
#pragma unroll
    for (std::uint32_t u = 0; u < kBatch; ++u) {
      const std::uint32_t q = min(first + u, meeting.end - 1);
      tiles[u] = __ldg(b.index.inner + q) - first_column;
      terms[u] = brings ? __ldg(reinterpret_cast<const uint2*>(b.values + std::uint64_t{q} * 64 + from)) : uint2{0, 0};
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kBatch; ++u) {
      if (first + u >= meeting.end) break;
      const BytePair b_bytes = split_bytes(terms[u]);
      std::uint32_t high[4] = {};
      std::uint32_t low[4] = {};
      mma_u8_16x8x16(high, a.high, a.low, b_bytes.high);
      mma_u8_16x8x16(low, a.high, a.low, b_bytes.low);
#pragma unroll
      for (std::uint32_t e = 0; e < 2; ++e) {
        using Sum = std::conditional_t<Fits, std::uint32_t, std::uint64_t>;
        const std::uint32_t middle = high[2 + e] + low[e];  // at most 2 * 8 * 255 * 255
        const Sum value = (Sum{high[e]} << 16) + (Sum{middle} << 8) + low[2 + e];
        sums.add<Fits>(tiles[u], group * 8 + within * 2 + e, value);
      }
    }
  }
}

/// The same for any m.
__device__ void add_meeting_any_m(const std::uint16_t* a_block, const OperandView& b, Meeting meeting,
                                  std::uint32_t first_column, std::uint32_t m, const Accumulators& sums) {
  for (std::uint32_t q = meeting.first; q < meeting.end; ++q) {
    const std::uint32_t tile = b.index.inner[q] - first_column;
    for (std::uint32_t e = threadIdx.x % 32; e < m * m; e += 32) {
      sums.add<false>(tile, e, dot(a_block + e / m * m, b.values + (std::uint64_t{q} * m + e % m) * m, m));
    }
  }
}

/// Whichever of the above is made for M.
template <std::uint32_t M, bool Fits>
__device__ void add_block(const std::uint16_t* a_block, const OperandView& b, Meeting meeting,
                          std::uint32_t first_column, std::uint32_t m, const Accumulators& sums) {
  if constexpr (M == 8 && kHasByteMma) {
    add_meeting_8<Fits>(a_block, b, meeting, first_column, sums);
  } else if constexpr (M != 0) {
    add_meeting<M, Fits>(a_block, b, meeting, first_column, sums);
  } else {
    add_meeting_any_m(a_block, b, meeting, first_column, m, sums);
  }
}

// Grid: x = stretch of columns, y = block row of the panel.
// Work: first every thread finds the blocks of B that one block of A meets in the stretch; then a warp takes blocks of
// A
//       in turn, keeps its share of the block in registers and walks the blocks of B (m = 4: two at a time).
// Memory: B's blocks are read contiguously; sums live in shared memory, neighbouring lanes on neighbouring words.
template <std::uint32_t M>
__global__ void __launch_bounds__(kThreads)
    mul_row_spread(OperandView a, OperandView b, const std::uint32_t* b_row_slots, TilesView tiles,
                   std::uint32_t tiles_per_stretch, std::uint32_t run_time_m, std::uint32_t max_element,
                   TileResults results) {
  extern __shared__ std::uint32_t shared[];
  __shared__ Meeting meetings[kThreads];
  const std::uint32_t m = M != 0 ? M : run_time_m;
  const std::uint32_t elements = m * m;
  const std::uint32_t skipped = blockIdx.x * tiles_per_stretch;
  const std::uint32_t first_column = tiles.column_begin + skipped;
  const std::uint32_t num_tiles = min(tiles_per_stretch, tiles.num_columns - skipped);
  const Accumulators sums{.sums = shared, .saturated = shared + num_tiles * elements, .elements = elements};
  for (std::uint32_t x = threadIdx.x; x < num_tiles * (elements + bit_words(elements)); x += kThreads) shared[x] = 0;

  const std::uint32_t row = tiles.row_begin + blockIdx.y;
  const std::uint32_t end = a.index.offsets[row + 1];
  const std::uint64_t num_terms = std::uint64_t{end - a.index.offsets[row]} * m;  // of an element at most
  const bool fits = num_terms * max_element <= kMaxVal / max(max_element, 1u);
  for (std::uint32_t first = a.index.offsets[row]; first < end; first += kThreads) {
    const std::uint32_t count = min(kThreads, end - first);
    if (threadIdx.x < count) {
      meetings[threadIdx.x] = find_meeting(b.index, b_row_slots[first + threadIdx.x], first_column, num_tiles);
    }
    __syncthreads();  // meetings are listed, in the first round also: all sums are zero
    for (std::uint32_t x = threadIdx.x / 32; x < count; x += kWarps) {
      const std::uint16_t* const a_block = a.values + std::uint64_t{first + x} * elements;
      if (fits) {
        add_block<M, true>(a_block, b, meetings[x], first_column, m, sums);
      } else {
        add_block<M, false>(a_block, b, meetings[x], first_column, m, sums);
      }
    }
    __syncthreads();  // meetings may be replaced; after the last round: all products are in
  }

  const std::uint64_t first_tile = std::uint64_t{blockIdx.y} * tiles.num_columns + skipped;
  for (std::uint32_t x = threadIdx.x; x < num_tiles * elements; x += kThreads) {
    const std::uint32_t tile = x / elements;
    const std::uint32_t value = sums.value(tile, x % elements);
    results.values[first_tile * elements + x] = value;
    if (value != 0) results.non_zero[first_tile + tile] = 1;  // everyone who writes writes 1
  }
}

/// Dynamic shared memory that a CTA may take on this device for its sums.
std::uint32_t shared_limit() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  constexpr std::uint32_t kStatic = kThreads * sizeof(Meeting);
  return static_cast<std::uint32_t>(bytes) >= kSharedBytes + kStatic ? kSharedBytes : kSmallSharedBytes;
}

template <std::uint32_t M>
void launch(const OperandView& a, const OperandView& b, const std::uint32_t* b_row_slots, const TilesView& tiles,
            std::uint32_t m, std::uint32_t max_element, const TileResults& results, cudaStream_t stream) {
  const std::uint32_t elements = m * m;
  const std::uint32_t tile_bytes = (elements + bit_words(elements)) * 4;
  const std::uint32_t limit = shared_limit();
  const std::uint32_t most = std::max(1u, limit / tile_bytes);
  const std::uint32_t stretches = (tiles.num_columns - 1) / most + 1;
  const std::uint32_t width = (tiles.num_columns - 1) / stretches + 1;
  check(cudaFuncSetAttribute(mul_row_spread<M>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limit)),
        "mul_row_spread shared memory");
  constexpr std::uint32_t kMaxGridRows = 65'535;
  for (std::uint32_t first = 0; first < tiles.num_rows; first += kMaxGridRows) {
    TilesView part = tiles;
    part.row_begin += first;
    part.num_rows = std::min(kMaxGridRows, tiles.num_rows - first);
    const std::uint64_t skip = std::uint64_t{first} * tiles.num_columns;
    const TileResults rest{.values = results.values + skip * elements, .non_zero = results.non_zero + skip};
    mul_row_spread<M><<<dim3(stretches, part.num_rows), kThreads, std::size_t{width} * tile_bytes, stream>>>(
        a, b, b_row_slots, part, width, m, max_element, rest);
  }
}

}  // namespace

void launch_mul_row_spread(const OperandView& a, const OperandView& b, const std::uint32_t* b_row_slots,
                           const TilesView& tiles, std::uint32_t m, std::uint32_t max_element,
                           const TileResults& results, cudaStream_t stream) {
  if (tiles.num_tiles == 0) return;
  check(cudaMemsetAsync(results.non_zero, 0, tiles.num_tiles, stream), "clear flags");
  switch (m) {
    case 4:
      launch<4>(a, b, b_row_slots, tiles, m, max_element, results, stream);
      break;
    case 8:
      launch<8>(a, b, b_row_slots, tiles, m, max_element, results, stream);
      break;
    case 16:
      launch<16>(a, b, b_row_slots, tiles, m, max_element, results, stream);
      break;
    case 32:
      launch<32>(a, b, b_row_slots, tiles, m, max_element, results, stream);
      break;
    default:
      launch<0>(a, b, b_row_slots, tiles, m, max_element, results, stream);
  }
  check_launch("mul_row_spread");
}

}  // namespace spmm::kernels
