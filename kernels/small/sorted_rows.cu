// Rows of C with few pairs, m = 1: a warp sorts the pairs of a row by column in registers and adds up those of a
// column.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/resident.hpp"
#include "kernels/small/launch.hpp"
#include "kernels/warp.cuh"
#include "spmm/saturate.hpp"

namespace spmm::kernels {
namespace {

/// Warps of a CTA: each takes up to 25 KB, and every device gives a CTA 48.
template <std::uint32_t MaxPerLane>
constexpr std::uint32_t kWarps = MaxPerLane <= 16 ? 4 : 1;

constexpr std::uint32_t kNoPair = 0xFFFF'FFFF;  // sorts behind all pairs

/// Elements of B's row that an element of A is multiplied with.
struct alignas(8) SortedSegment {
  std::uint32_t shift;      // element of B = shift + pair, modulo 2^32
  std::uint32_t row_and_a;  // which of the rows that are sorted together << 16 | A's element
};

/// What a launch works with.
struct SortedLaunch {
  RowProduct product;
  std::uint32_t row_begin;
  std::uint32_t num_rows;
  std::uint32_t rows_at_once;
  std::uint32_t num_columns;   // of B; a key counts on from one row to the next
  std::uint32_t max_segments;  // of the rows that are sorted together: blocks of A
  std::uint32_t warp_words;    // of shared memory
  RecordOutput out;
};

/// Shared memory of a warp for up to max_pairs at once.
/// Layout: values [max_pairs], starts [max_pairs / 32], segments; later staged columns and sums in their place.
struct WarpMemory {
  std::uint32_t* values;
  SortedSegment* segments;
  std::uint32_t* starts;
  std::uint32_t* columns;  // those of all rows counted on
  std::uint32_t* sums;

  __device__ WarpMemory(std::uint32_t* memory, std::uint32_t max_pairs)
      : values(memory),
        segments(reinterpret_cast<SortedSegment*>(memory + segments_at(max_pairs))),
        starts(memory + max_pairs),
        columns(memory),
        sums(memory + max_pairs) {}

  /// Behind values and starts, at an even word: segments have 64 bits.
  static constexpr SPMM_HOST_DEVICE std::uint32_t segments_at(std::uint32_t max_pairs) {
    return (max_pairs + max_pairs / 32 + 1) / 2 * 2;
  }
  /// 32-bit words of all, a multiple of four.
  static constexpr std::uint32_t num_words(std::uint32_t max_pairs, std::uint32_t max_segments) {
    return (std::max(segments_at(max_pairs) + 2 * max_segments, 2 * max_pairs) + 3) / 4 * 4;
  }
};

/// Lists the segments of rows [first, first + num_rows), and a bit for each pair that opens one.
/// Threads: one whole warp; complete after __syncwarp.
template <std::uint32_t MaxPerLane>
__device__ inline void list_segments(const RowProduct& product, std::uint32_t first, std::uint32_t num_rows,
                                     const WarpMemory& memory) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t x = lane; x < MaxPerLane; x += 32) memory.starts[x] = 0;
  __syncwarp();  // bits are clear
  const std::uint32_t row_begin = product.a.index.offsets[first + min(lane, num_rows)];
  const std::uint32_t end = __shfl_sync(~0u, row_begin, num_rows);
  std::uint32_t pairs = 0;
  std::uint32_t segments = 0;
  for (std::uint32_t block = __shfl_sync(~0u, row_begin, 0); block < end; block += 32) {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
    std::uint32_t a = 0;
    if (block + lane < end) {
      const std::uint32_t b_row = product.b_row_index[block + lane];
      a = product.a.values[block + lane];
      if (b_row != kNoRow) {
        begin = product.b.index.offsets[b_row];
        count = product.b.index.offsets[b_row + 1] - begin;
      }
    }
    std::uint32_t row = 0;
    for (std::uint32_t t = 1; t < num_rows; ++t) row += block + lane >= __shfl_sync(~0u, row_begin, t) ? 1 : 0;
    const std::uint32_t through = inclusive_warp_sum(count);
    const std::uint32_t some = __ballot_sync(~0u, count != 0);
    if (count != 0) {
      const std::uint32_t at = pairs + through - count;
      memory.segments[segments + __popc(some & ((1u << lane) - 1))] = {.shift = begin - at, .row_and_a = row << 16 | a};
      atomicOr(&memory.starts[at / 32], 1u << at % 32);  // lanes share words
    }
    pairs += __shfl_sync(~0u, through, 31);
    segments += __popc(some);
  }
}

/// Orders keys `step` apart in a lane: the smaller one goes first where up(e), else last.
template <std::uint32_t PerLane, class Up>
__device__ inline void order_in_lane(std::uint32_t (&keys)[PerLane], std::uint32_t step, const Up& up) {
#pragma unroll
  for (std::uint32_t e = 0; e < PerLane; ++e) {
    if ((e & step) != 0) continue;
    const std::uint32_t low = min(keys[e], keys[e | step]);
    const std::uint32_t high = max(keys[e], keys[e | step]);
    keys[e] = up(e) ? low : high;
    keys[e | step] = up(e) ? high : low;
  }
}

/// Sorts keys, of which lane l has the numbers l * PerLane to (l + 1) * PerLane - 1: bitonic.
/// Threads: one whole warp.
template <std::uint32_t PerLane>
__device__ inline void sort_keys(std::uint32_t (&keys)[PerLane]) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t size = 2; size <= PerLane; size *= 2) {
#pragma unroll
    for (std::uint32_t step = size / 2; step > 0; step /= 2) {
      order_in_lane(keys, step, [=](std::uint32_t e) { return size == PerLane ? (lane & 1) == 0 : (e & size) == 0; });
    }
  }
#pragma unroll 1
  for (std::uint32_t lanes = 2; lanes <= 32; lanes *= 2) {  // that a sorted run spans
    const bool up = (lane & lanes) == 0;
#pragma unroll 1
    for (std::uint32_t across = lanes / 2; across > 0; across /= 2) {
      const bool takes_low = ((lane & across) == 0) == up;
#pragma unroll
      for (std::uint32_t e = 0; e < PerLane; ++e) {
        const std::uint32_t other = __shfl_xor_sync(~0u, keys[e], across);
        keys[e] = takes_low ? min(keys[e], other) : max(keys[e], other);
      }
    }
#pragma unroll
    for (std::uint32_t step = PerLane / 2; step > 0; step /= 2) {
      order_in_lane(keys, step, [=](std::uint32_t) { return up; });
    }
  }
}

__device__ inline std::uint32_t add_clamped(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t sum = x + y;
  return sum < x ? kMaxVal : sum;
}

/// What the lanes before this one have of its first column, if it has any pairs. Values: tail = sum of the lane's last
/// column. Threads: one whole warp.
__device__ inline std::uint32_t sum_from_left(bool has_pairs, std::uint32_t first_column, std::uint32_t last_column,
                                              std::uint32_t tail) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t left_column = __shfl_up_sync(~0u, last_column, 1);
  const bool continues = has_pairs && lane != 0 && left_column == first_column;
  bool is_open = continues && first_column == last_column;  // the lane has no other column
#pragma unroll 1
  for (std::uint32_t step = 1; __any_sync(~0u, is_open); step *= 2) {
    const std::uint32_t left = __shfl_up_sync(~0u, tail, step);
    const bool left_is_open = __shfl_up_sync(~0u, static_cast<int>(is_open), step) != 0;
    if (!is_open) continue;
    tail = add_clamped(tail, left);
    is_open = lane >= step && left_is_open;
  }
  const std::uint32_t left = __shfl_up_sync(~0u, tail, 1);
  return continues ? left : 0;
}

/// Bits of a key that number the pair.
template <std::uint32_t PerLane>
constexpr auto kIdBits = static_cast<std::uint32_t>(std::bit_width(32 * PerLane - 1));

/// Multiplies listed pairs: writes memory.values, and a key for each product that is not zero.
/// Values: num_pairs <= 32 * PerLane.
/// Threads: one whole warp.
template <std::uint32_t PerLane>
__device__ inline void multiply_pairs(const RowProduct& product, std::uint32_t num_columns, std::uint32_t num_pairs,
                                      const WarpMemory& memory, std::uint32_t (&keys)[PerLane]) {
  constexpr std::uint32_t kAtOnce = PerLane < 8 ? PerLane : 8;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t segment = 0;
#pragma unroll
  for (std::uint32_t first = 0; first < PerLane; first += kAtOnce) {
    std::uint32_t columns[kAtOnce];
    std::uint32_t b[kAtOnce];
    std::uint32_t a[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t pair = (first + u) * 32 + lane;
      const std::uint32_t word = memory.starts[first + u];
      a[u] = b[u] = columns[u] = 0;
      if (pair < num_pairs) {
        const SortedSegment own = memory.segments[segment + __popc(word & ((2u << lane) - 1)) - 1];
        a[u] = own.row_and_a & 0xFFFF;
        columns[u] = (own.row_and_a >> 16) * num_columns + __ldg(product.b.index.columns + (own.shift + pair));
        b[u] = __ldg(product.b.values + (own.shift + pair));
      }
      segment += __popc(word);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t pair = (first + u) * 32 + lane;
      const std::uint32_t value = a[u] * b[u];
      memory.values[pair] = value;
      keys[first + u] = value != 0 ? columns[u] << kIdBits<PerLane> | pair : kNoPair;
    }
  }
}

/// Adds up the values of sorted keys by column and stages them; returns how many columns there are.
/// Threads: one whole warp, once values are written and segments have been read.
template <std::uint32_t PerLane>
__device__ inline std::uint32_t stage_sums(const std::uint32_t (&keys)[PerLane], const WarpMemory& memory) {
  using Ends = std::conditional_t<PerLane == 64, std::uint64_t, std::uint32_t>;
  constexpr std::uint32_t kShift = kIdBits<PerLane>;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t sums[PerLane];
#pragma unroll
  for (std::uint32_t e = 0; e < PerLane; ++e) {
    sums[e] = keys[e] == kNoPair ? 0 : memory.values[keys[e] & ((1u << kShift) - 1)];
    if (e > 0 && keys[e] >> kShift == keys[e - 1] >> kShift) sums[e] = add_clamped(sums[e], sums[e - 1]);
  }
  const std::uint32_t first_column = keys[0] >> kShift;
  const std::uint32_t last_column = keys[PerLane - 1] >> kShift;
  const std::uint32_t from_left = sum_from_left(keys[0] != kNoPair, first_column, last_column, sums[PerLane - 1]);
  const std::uint32_t next_column = __shfl_down_sync(~0u, first_column, 1);
  Ends ends = 0;  // a bit for each key that is the last one of its column
#pragma unroll
  for (std::uint32_t e = 0; e < PerLane; ++e) {
    const std::uint32_t column = keys[e] >> kShift;
    const bool is_last =
        e + 1 < PerLane ? column != keys[e + 1 < PerLane ? e + 1 : e] >> kShift : lane == 31 || column != next_column;
    if (is_last && keys[e] != kNoPair) ends |= Ends{1} << e;
    if (column == first_column) sums[e] = add_clamped(sums[e], from_left);
  }
  const auto count = static_cast<std::uint32_t>(__popcll(ends));
  const std::uint32_t through = inclusive_warp_sum(count);
  std::uint32_t at = through - count;
  __syncwarp();  // values have been read
#pragma unroll
  for (std::uint32_t e = 0; e < PerLane; ++e) {
    if ((ends >> e & 1) == 0) continue;
    memory.columns[at] = keys[e] >> kShift;
    memory.sums[at] = sums[e];
    ++at;
  }
  return __shfl_sync(~0u, through, 31);
}

/// Multiplies and sorts listed pairs and stages their sums, with as few registers as there are pairs for.
template <std::uint32_t MaxPerLane>
__device__ inline std::uint32_t multiply_any(const RowProduct& product, std::uint32_t num_columns,
                                             std::uint32_t num_pairs, const WarpMemory& memory) {
  if constexpr (MaxPerLane > 1) {
    if (num_pairs <= 16 * MaxPerLane) return multiply_any<MaxPerLane / 2>(product, num_columns, num_pairs, memory);
  }
  std::uint32_t keys[MaxPerLane];
  multiply_pairs<MaxPerLane>(product, num_columns, num_pairs, memory, keys);
  sort_keys<MaxPerLane>(keys);
  __syncwarp();  // values are written, segments have been read
  return stage_sums<MaxPerLane>(keys, memory);
}

/// Writes the staged records of rows from `row` on, the first of which has number `first`. Threads: one whole warp.
__device__ inline void write_staged(const SortedLaunch& launch, const WarpMemory& memory, std::uint32_t row,
                                    std::uint32_t count, std::uint64_t first) {
  const RecordPlaces& to = launch.out.to;
#pragma unroll 2
  for (std::uint32_t x = threadIdx.x % 32; x < count; x += 32) {
    const std::uint32_t column = memory.columns[x];
    const std::uint32_t in_rows = launch.rows_at_once == 1 ? 0 : column / launch.num_columns;
    const uint2 head{launch.out.rows[row + in_rows], column - in_rows * launch.num_columns};
    std::uint32_t* const head_at = to.heads + (first + x) * to.head_stride;
    if (to.are_packed()) {  // at no multiple of eight bytes
      head_at[0] = head.x;
      head_at[1] = head.y;
    } else {
      *reinterpret_cast<uint2*>(head_at) = head;
    }
    to.values[(first + x) * to.value_stride] = memory.sums[x];
  }
}

// Grid: as many CTAs as fit the device; each warp takes some rows after the other, in result order.
// Work: a lane per pair; a warp sorts the pairs of its rows together, learns its place by look-back, and writes. It
//       waits for no other warp of its CTA.
// Memory: neighbouring lanes read neighbouring elements of B's rows; records leave contiguously.
template <std::uint32_t MaxPerLane>
__global__ void __launch_bounds__(kWarps<MaxPerLane> * 32)
    mul_sorted_rows(const __grid_constant__ SortedLaunch launch) {
  extern __shared__ __align__(16) std::uint32_t region[];
  const std::uint32_t lane = threadIdx.x % 32;
  const RowProduct& product = launch.product;
  const WarpMemory memory(region + threadIdx.x / 32 * launch.warp_words, 32 * MaxPerLane);
  const std::uint32_t num_tickets = (launch.num_rows - 1) / launch.rows_at_once + 1;
  while (true) {
    std::uint32_t ticket = lane == 0 ? take_cta_number(launch.out) : 0;
    ticket = __shfl_sync(~0u, ticket, 0);
    if (ticket >= num_tickets) return;
    const std::uint32_t first = launch.row_begin + ticket * launch.rows_at_once;
    const std::uint32_t num_rows = min(launch.rows_at_once, launch.row_begin + launch.num_rows - first);
    const std::uint64_t first_pair = product.pair_offsets[product.a.index.offsets[first]];
    const std::uint64_t end_pair = product.pair_offsets[product.a.index.offsets[first + num_rows]];
    const auto num_pairs = static_cast<std::uint32_t>(end_pair - first_pair);
    std::uint32_t count = 0;
    if (num_pairs != 0) {
      list_segments<MaxPerLane>(product, first, num_rows, memory);
      __syncwarp();  // the list is complete
      count = multiply_any<MaxPerLane>(product, launch.num_columns, num_pairs, memory);
    }
    const std::uint32_t before = records_before(launch.out, ticket, count);
    if (lane == 0 && ticket + 1 == num_tickets) *launch.out.num_blocks = before + count;
    __syncwarp();  // records are staged
    write_staged(launch, memory, first, count, before);
    __syncwarp();  // they have been read
  }
}

template <std::uint32_t MaxPerLane>
void launch(SortedLaunch what, std::uint64_t max_pairs, cudaStream_t stream) {
  if constexpr (MaxPerLane > 1) {
    if (max_pairs <= 16 * MaxPerLane) return launch<MaxPerLane / 2>(what, max_pairs, stream);
  }
  constexpr std::uint32_t kPairs = 32 * MaxPerLane;
  what.max_segments = std::min(what.max_segments, kPairs);  // those that have pairs
  what.warp_words = WarpMemory::num_words(kPairs, what.max_segments);
  constexpr std::uint32_t kThreads = kWarps<MaxPerLane> * 32;
  const std::uint32_t shared_bytes = what.warp_words * kWarps<MaxPerLane> * 4;
  const std::uint32_t num_tickets = (what.num_rows - 1) / what.rows_at_once + 1;
  const std::uint32_t grid = std::min((num_tickets - 1) / kWarps<MaxPerLane> + 1,
                                      resident_ctas(mul_sorted_rows<MaxPerLane>, kThreads, shared_bytes));
  mul_sorted_rows<MaxPerLane><<<grid, kThreads, shared_bytes, stream>>>(what);
}

}  // namespace

void launch_mul_sorted_rows(const RowProduct& product, const CBlocksView& c_blocks, std::uint64_t max_row_pairs,
                            std::uint32_t max_row_blocks, const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) {
    launch_no_records(out, stream);
    return;
  }
  const std::uint32_t at_once = sorted_rows_at_once(max_row_pairs, product.num_columns);
  const std::uint64_t num_tickets = (c_blocks.num_rows - 1) / at_once + std::uint64_t{1};
  check(cudaMemsetAsync(out.look_back, 0, (num_tickets + 1) * sizeof(std::uint64_t), stream), "clear look-back states");
  const SortedLaunch what{.product = product,
                          .row_begin = c_blocks.row_begin,
                          .num_rows = c_blocks.num_rows,
                          .rows_at_once = at_once,
                          .num_columns = product.num_columns,
                          .max_segments = static_cast<std::uint32_t>(
                              std::min(std::uint64_t{max_row_blocks} * at_once, max_row_pairs * at_once)),
                          .warp_words = 0,
                          .out = out};
  launch<kSortedRowPairs / 32>(what, max_row_pairs * at_once, stream);
  check_launch("mul_sorted_rows");
}

}  // namespace spmm::kernels
