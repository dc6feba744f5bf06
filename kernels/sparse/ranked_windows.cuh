// What a CTA of row-rank works with: the columns of its window, the B segments that fall into it, shared out evenly.
#pragma once

#include "kernels/grid.cuh"
#include "kernels/sparse/rank_parts.cuh"
#include "kernels/sparse/ranked_segments.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {

/// The B segments of a round, that is of up to kThreads blocks of A, none empty, and the window's number.
template <std::uint32_t Warps>
struct RankRound {
  static constexpr std::uint32_t kThreads = Warps * 32;
  std::uint32_t first[kThreads];       // block of B
  std::uint32_t a[kThreads];           // block of A
  std::uint32_t before[kThreads + 1];  // pairs of the segments before it; at the end: of all
  uint2 of_warp[Warps];                // pairs, segments
  std::uint32_t ticket;

  /// Lists the calling thread's segment, possibly empty; returns how many are not. Complete when it returns.
  /// Threads: all of the CTA.
  __device__ std::uint32_t list(BSegment segment, std::uint32_t of_a) {
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t length = segment.end - segment.first;
    const std::uint32_t through = inclusive_warp_sum(length);
    const std::uint32_t some = __ballot_sync(~0u, length != 0);
    if (lane == 31) of_warp[warp] = uint2{through, static_cast<std::uint32_t>(__popc(some))};
    __syncthreads();  // counts of all warps are known, the segments before are no longer read
    const uint2 counts = lane < Warps ? of_warp[lane] : uint2{0, 0};
    const std::uint32_t pairs = inclusive_warp_sum(counts.x);
    const std::uint32_t segments = inclusive_warp_sum(counts.y);
    const std::uint32_t all_pairs = __shfl_sync(~0u, pairs, 31);
    const std::uint32_t all_segments = __shfl_sync(~0u, segments, 31);
    const std::uint32_t pairs_before = __shfl_sync(~0u, pairs - counts.x, warp);
    const std::uint32_t segments_before = __shfl_sync(~0u, segments - counts.y, warp);
    if (length != 0) {
      const std::uint32_t x = segments_before + __popc(some & ((1u << lane) - 1));
      first[x] = segment.first;
      a[x] = of_a;
      before[x] = pairs_before + through - length;
    }
    if (threadIdx.x == 0) before[all_segments] = all_pairs;
    __syncthreads();  // segments are listed
    return all_segments;
  }
};

/// The blocks of B's row of a block of A that fall into the columns [first, last] of a window of `count` C blocks.
__device__ inline BSegment segment_of_window(const RankedProduct& product, std::uint32_t p, bool is_whole,
                                             std::uint32_t first, std::uint32_t last, std::uint32_t count) {
  const std::uint32_t b_row = product.b_row_index[p];
  if (b_row == kNoRow) return {0, 0};
  const CompressedView& b = product.b.index;
  const std::uint32_t begin = b.offsets[b_row];
  const std::uint32_t end = b.offsets[b_row + 1];
  if (is_whole) return {begin, end};
  const std::uint64_t from = lower_bound(b.columns, begin, end, first);
  const std::uint64_t most = min(std::uint64_t{end}, from + count);  // all of them are C blocks of the window
  return {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(upper_bound(b.columns, from, most, last))};
}

/// Reads the columns of a window and fills its buckets; complete when it returns.
/// Shapes: columns [count], starts [rank_buckets(count) + 1], shared.
/// Threads: all of the CTA.
__device__ inline RankedColumns fill_buckets(const std::uint32_t* listed, std::uint32_t count, std::uint32_t* columns,
                                             std::uint16_t* starts) {
  const std::uint32_t num_buckets = 1u << (32 - __clz(static_cast<int>(count + count / 2 - 1)));  // rank_buckets(count)
  const std::uint32_t first = __ldg(listed);
  const std::uint32_t span = __ldg(listed + count - 1) - first;
  const std::uint32_t bits = 32 - __clz(static_cast<int>(span));
  const std::uint32_t bucket_bits = 31 - __clz(static_cast<int>(num_buckets));
  const std::uint32_t shift = bits > bucket_bits ? bits - bucket_bits : 0;
  for (std::uint32_t x = threadIdx.x; x < count; x += blockDim.x) {
    const std::uint32_t column = __ldg(listed + x);
    columns[x] = column;
    // Buckets that begin behind the column before, up to the own one, start here; the last column closes the others.
    std::uint32_t bucket = x == 0 ? 0 : ((__ldg(listed + x - 1) - first) >> shift) + 1;
    for (const std::uint32_t own = (column - first) >> shift; bucket <= own; ++bucket) {
      starts[bucket] = static_cast<std::uint16_t>(x);
    }
    if (x + 1 != count) continue;
    for (; bucket <= num_buckets; ++bucket) starts[bucket] = static_cast<std::uint16_t>(count);
  }
  __syncthreads();  // columns and buckets are complete
  return {.columns = columns, .starts = starts, .first = first, .shift = shift};
}

}  // namespace spmm::kernels
