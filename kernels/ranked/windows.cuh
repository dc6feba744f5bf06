// What a CTA of row-rank works with: the columns of its window, the B segments that fall into it, shared out evenly.
#pragma once

#include "kernels/grid.cuh"
#include "kernels/ranked/pieces.cuh"
#include "kernels/ranked/segments.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {

/// The B segments of a round, that is of up to kBlocks blocks of A, none empty.
template <std::uint32_t Warps>
struct RankRound {
  static constexpr std::uint32_t kThreads = Warps * 32;
  static constexpr std::uint32_t kPerThread = 2;  // loads in flight
  static constexpr std::uint32_t kBlocks = kThreads * kPerThread;
  std::uint32_t first[kBlocks];       // block of B
  std::uint32_t before[kBlocks + 1];  // pairs of the segments before it; at the end: of all
  std::uint16_t a[kBlocks];           // block of A, from the first of the round on
  uint2 of_warp[Warps];               // pairs, segments

  struct Segments {
    BSegment of[kPerThread];
  };

  /// Lists the calling thread's segments, possibly empty; returns how many are not. Complete when it returns.
  /// Layout: segments.of[t] belongs to block threadIdx.x + t * kThreads of the round.
  /// Threads: all of the CTA.
  __device__ std::uint32_t list(const Segments& segments) {
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t lane = threadIdx.x % 32;
    std::uint32_t length = 0;
    std::uint32_t number = 0;
#pragma unroll
    for (const BSegment& segment : segments.of) {
      length += segment.end - segment.first;
      number += segment.end != segment.first ? 1 : 0;
    }
    const std::uint32_t pairs_through = inclusive_warp_sum(length);
    const std::uint32_t number_through = inclusive_warp_sum(number);
    if (lane == 31) of_warp[warp] = uint2{pairs_through, number_through};
    __syncthreads();  // counts of all warps are known, the segments before are no longer read
    const uint2 counts = lane < Warps ? of_warp[lane] : uint2{0, 0};
    const std::uint32_t pairs = inclusive_warp_sum(counts.x);
    const std::uint32_t numbers = inclusive_warp_sum(counts.y);
    const std::uint32_t all_pairs = __shfl_sync(~0u, pairs, 31);
    const std::uint32_t all = __shfl_sync(~0u, numbers, 31);
    std::uint32_t pairs_before = __shfl_sync(~0u, pairs - counts.x, warp) + pairs_through - length;
    std::uint32_t x = __shfl_sync(~0u, numbers - counts.y, warp) + number_through - number;
#pragma unroll
    for (std::uint32_t t = 0; t < kPerThread; ++t) {
      if (segments.of[t].first == segments.of[t].end) continue;
      first[x] = segments.of[t].first;
      before[x] = pairs_before;
      a[x] = static_cast<std::uint16_t>(threadIdx.x + t * kThreads);
      pairs_before += segments.of[t].end - segments.of[t].first;
      ++x;
    }
    if (threadIdx.x == 0) before[all] = all_pairs;
    __syncthreads();  // segments are listed
    return all;
  }
};

/// What tells which blocks of B's rows fall into a window.
struct WindowRange {
  bool is_whole;                // all do
  const std::uint32_t* splits;  // [2, of_a], device: where the window begins and ends; null = to be searched
  std::uint32_t begin;          // the row's first block of A
  std::uint32_t of_a;           // blocks of A
  std::uint32_t first;          // column
  std::uint32_t last;

  /// The segment of block number x of the row of A.
  [[nodiscard]] __device__ BSegment segment(const RankedProduct& product, std::uint32_t x) const {
    if (x >= of_a) return {0, 0};
    if (splits != nullptr) return {__ldg(splits + x), __ldg(splits + of_a + x)};
    const std::uint32_t b_row = product.b_row_index[begin + x];
    if (b_row == kNoRow) return {0, 0};
    const CompressedView& b = product.b.index;
    const BSegment row{b.offsets[b_row], b.offsets[b_row + 1]};
    if (is_whole) return row;
    const BRange range = find_range(b.columns, row.first, row.end, first, last);
    return {range.from, range.to};
  }
};

/// Reads the columns of a window and fills its buckets; complete when it returns. A bucket without columns is left as
/// it is: nothing looks there. Shapes: columns [count], buckets [rank_buckets(count)], shared. Threads: all of the CTA.
__device__ inline RankedColumns fill_buckets(const std::uint32_t* listed, std::uint32_t count, std::uint32_t* columns,
                                             std::uint16_t* buckets) {
  const std::uint32_t num_buckets = 1u << (32 - __clz(static_cast<int>(count + count / 2 - 1)));  // rank_buckets(count)
  const std::uint32_t first = __ldg(listed);
  const std::uint32_t span = __ldg(listed + count - 1) - first;
  const std::uint32_t bits = 32 - __clz(static_cast<int>(span));
  const std::uint32_t bucket_bits = 31 - __clz(static_cast<int>(num_buckets));
  const std::uint32_t shift = bits > bucket_bits ? bits - bucket_bits : 0;
  for (std::uint32_t x = threadIdx.x; x < count; x += blockDim.x) {
    const std::uint32_t column = __ldg(listed + x);
    const std::uint32_t before = __ldg(listed + max(x, 1u) - 1);
    const std::uint32_t behind = __ldg(listed + min(x + 1, count - 1));
    columns[x] = column;
    const std::uint32_t own = (column - first) >> shift;
    if (x == 0 || (before - first) >> shift != own) buckets[2 * own] = static_cast<std::uint16_t>(x);
    if (x + 1 == count || (behind - first) >> shift != own) buckets[2 * own + 1] = static_cast<std::uint16_t>(x + 1);
  }
  __syncthreads();  // columns and buckets are complete
  return {.columns = columns, .buckets = buckets, .first = first, .shift = shift};
}

}  // namespace spmm::kernels
