// B segments of some blocks of A, listed in shared memory, and the walk of a warp over their pairs, a lane per pair.
#pragma once

#include <cstdint>

#include "kernels/grid.cuh"
#include "kernels/small/sums.cuh"
#include "kernels/views.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {

/// Blocks of B that one block of A is multiplied with, none of them left out.
struct SmallSegment {
  std::uint32_t first;   // block of B
  std::uint32_t end;     // behind the last one
  std::uint32_t a;       // block of A
  std::uint32_t before;  // tiles, or pairs, of the segments before it
};

/// Lists of segments, in tiles of up to 32 pairs: what a warp multiplies at once.
/// Values: flat: segments are short, a tile goes across them and `before` counts pairs; else a tile lies in one segment
/// and `before` counts tiles.
struct SmallList {
  const SmallSegment* segments;  // [count], shared, none empty
  std::uint32_t count;
  std::uint32_t total;  // pairs (flat) or tiles
  bool flat;

  [[nodiscard]] __device__ std::uint32_t num_tiles() const { return flat ? (total + 31) / 32 : total; }
};

/// Segments shorter than this on average are walked flat.
constexpr std::uint32_t kFlatPairs = 16;

/// Last segment whose `before` is at most `wanted`.
__device__ inline std::uint32_t small_segment_of(const SmallList& list, std::uint32_t low, std::uint32_t wanted) {
  return partition_point(low + 1, list.count, [&](std::uint32_t x) { return list.segments[x].before <= wanted; }) - 1;
}

/// Calls use(column, a, b_block) for every pair of tiles [begin, end), in a lane each; a = block of A. The blocks of
/// several pairs are in flight together. With_values: b_block is loaded.
/// Threads: one whole warp, not together: use() must not wait for other lanes.
template <std::uint32_t M, bool Flat, class Use>
__device__ void walk_pairs(const SmallList& list, std::uint32_t begin, std::uint32_t end, const OperandView& b,
                           bool with_values, const Use& use) {
  constexpr std::uint32_t kAtOnce = M == 1 ? 4 : M == 2 ? 2 : 1;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t x = small_segment_of(list, 0, Flat ? begin * 32 : begin);
  SmallSegment segment = list.segments[x];
  std::uint32_t next = x + 1 < list.count ? list.segments[x + 1].before : list.total;
#pragma unroll 1
  for (std::uint32_t tile = begin; tile < end; tile += kAtOnce) {
    std::uint32_t columns[kAtOnce];
    std::uint32_t of_a[kAtOnce];
    SmallBlock<M> blocks[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      columns[u] = kNoRow;
      if (tile + u >= end) continue;
      std::uint32_t q = 0;
      bool is_pair = false;
      if constexpr (Flat) {
        const std::uint32_t pair = (tile + u) * 32 + lane;
        is_pair = pair < list.total;
        x = small_segment_of(list, x, pair);  // lanes go on from where each was
        segment = list.segments[x];
        q = segment.first + (pair - segment.before);
      } else {
#pragma unroll 1
        while (tile + u >= next) {
          segment = list.segments[++x];
          next = x + 1 < list.count ? list.segments[x + 1].before : list.total;
        }
        q = segment.first + (tile + u - segment.before) * 32 + lane;
        is_pair = q < segment.end;
      }
      of_a[u] = segment.a;
      if (!is_pair) continue;
      columns[u] = __ldg(b.index.columns + q);
      if (with_values) blocks[u] = load_small_block<M>(b.values, q);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (columns[u] != kNoRow) use(columns[u], of_a[u], blocks[u]);
    }
  }
}

/// The same, however the list is to be walked.
template <std::uint32_t M, class Use>
__device__ void walk_tiles(const SmallList& list, std::uint32_t begin, std::uint32_t end, const OperandView& b,
                           bool with_values, const Use& use) {
  if (begin >= end) return;
  if (list.flat) {
    walk_pairs<M, true>(list, begin, end, b, with_values, use);
  } else {
    walk_pairs<M, false>(list, begin, end, b, with_values, use);
  }
}

/// Sums that decide how a list is walked: pairs, tiles and segments of some lanes.
struct SegmentCounts {
  std::uint32_t pairs;
  std::uint32_t tiles;
  std::uint32_t segments;

  [[nodiscard]] __device__ bool is_flat() const { return pairs < kFlatPairs * segments; }

  __device__ SegmentCounts operator+(const SegmentCounts& x) const {
    return {pairs + x.pairs, tiles + x.tiles, segments + x.segments};
  }
  __device__ SegmentCounts operator-(const SegmentCounts& x) const {
    return {pairs - x.pairs, tiles - x.tiles, segments - x.segments};
  }
};

/// What a lane of the warp has.
__device__ inline SegmentCounts from_lane(const SegmentCounts& own, std::uint32_t lane) {
  return {.pairs = __shfl_sync(~0u, own.pairs, lane),
          .tiles = __shfl_sync(~0u, own.tiles, lane),
          .segments = __shfl_sync(~0u, own.segments, lane)};
}

__device__ inline SegmentCounts counts_of(std::uint32_t first, std::uint32_t end) {
  const std::uint32_t pairs = end - first;
  return {.pairs = pairs, .tiles = (pairs + 31) / 32, .segments = pairs != 0 ? 1u : 0u};
}

/// Sums over this lane and those before it. Threads: one whole warp.
__device__ inline SegmentCounts inclusive_counts(SegmentCounts own) {
  return {.pairs = inclusive_warp_sum(own.pairs),
          .tiles = inclusive_warp_sum(own.tiles),
          .segments = inclusive_warp_sum(own.segments)};
}

/// Puts a lane's segment, if it has pairs, to its place in the list of `all`. Values: before = what comes before it.
__device__ inline SmallList put_segment(SmallSegment own, const SegmentCounts& before, const SegmentCounts& all,
                                        SmallSegment* segments) {
  const bool is_flat = all.is_flat();
  if (own.first != own.end) {
    own.before = is_flat ? before.pairs : before.tiles;
    segments[before.segments] = own;
  }
  return {.segments = segments, .count = all.segments, .total = is_flat ? all.pairs : all.tiles, .flat = is_flat};
}

/// Lists the segments of a warp's lanes, one each, possibly empty; complete when it returns.
/// Shapes: segments [32], shared, of this warp.
/// Threads: one whole warp.
__device__ inline SmallList list_of_warp(const SmallSegment& own, SmallSegment* segments) {
  const SegmentCounts counts = counts_of(own.first, own.end);
  const SegmentCounts through = inclusive_counts(counts);
  __syncwarp();  // the list before is no longer read
  const SmallList list = put_segment(own, through - counts, from_lane(through, 31), segments);
  __syncwarp();  // the list is complete
  return list;
}

/// The list of a whole CTA; `of_warp` is scratch.
/// Shapes: segments [blockDim.x], of_warp [blockDim.x / 32], shared.
/// Threads: all of the CTA.
__device__ inline SmallList list_of_cta(const SmallSegment& own, SmallSegment* segments, SegmentCounts* of_warp) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const SegmentCounts counts = counts_of(own.first, own.end);
  const SegmentCounts through = inclusive_counts(counts);
  if (lane == 31) of_warp[warp] = through;
  __syncthreads();  // counts of all warps are known, the list before is no longer read
  const SegmentCounts warps = inclusive_counts(lane < blockDim.x / 32 ? of_warp[lane] : SegmentCounts{});
  const SegmentCounts before = from_lane(warps, warp) - of_warp[warp] + through - counts;
  const SmallList list = put_segment(own, before, from_lane(warps, 31), segments);
  __syncthreads();  // the list is complete
  return list;
}

}  // namespace spmm::kernels
