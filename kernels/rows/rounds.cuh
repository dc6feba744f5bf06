// The rounds in which a CTA multiplies a row of A: the B segments of up to as many blocks of A as it has threads,
// shared out among its warps: in units of four blocks (sides 4 and 8), as they are if they are long (side 8), or by
// pairs.
#pragma once

#include <type_traits>

#include "kernels/rows/products.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {

/// Draws a number for this warp; it is known on the first lane. Shapes: next [1], shared.
/// Threads: one whole warp.
__device__ inline std::uint32_t draw(std::uint32_t* next) {
  std::uint32_t number = 0;
  if (threadIdx.x % 32 == 0) {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(next));
    // An addition would have the compiler look for other lanes that add, 15 instructions; numbers stay far below the
    // bound.
    asm volatile("atom.shared.inc.u32 %0, [%1], 0x7FFFFFFF;" : "=r"(number) : "r"(at) : "memory");
  }
  return number;
}

/// Sides 4 and 8: the B segments of a round in units, as many at once as there is room for, and where their products
/// are added; in shared memory. Warps multiply full units of any segments without looking at a segment again.
template <std::uint32_t Warps, std::uint32_t P>
struct UnitRound {
  static constexpr std::uint32_t kThreads = Warps * 32;  // and blocks of A
  static constexpr std::uint32_t kMaxUnits = Warps * 64;
  static constexpr std::uint32_t kBatch = UnitProducts<P, 0, true>::kBatch;  // units that a warp draws
  static constexpr std::uint32_t kBlocks = WorkUnit::kBlocks;
  WorkUnit units[kMaxUnits];
  // Words between the first sum and those of each block's products, as UnitProducts reads them.
  alignas(16) std::uint16_t places[kMaxUnits * kBlocks];
  std::uint32_t of_warp[Warps];
  std::uint32_t next;  // batch to be drawn

  /// Adds the products of a round; is_last: no other round follows.
  template <bool Fits, std::uint32_t M, class Part>
  __device__ void add(BSegment segment, bool is_last, const std::uint16_t* a_blocks, const RowProduct& product,
                      const Part& part, const Accumulators<M>& sums) {
    const CtaSum count = cta_sum((segment.end - segment.first + kBlocks - 1) / kBlocks, of_warp, Warps);
    std::uint32_t begin = 0;
#pragma unroll 1
    while (true) {
      const std::uint32_t num_units = min(count.all - begin, kMaxUnits);
      list(segment, count, begin, product.num_b_blocks);
      __syncthreads();  // units are listed; at first, sums are clear, too
      place(num_units, product.b.index.columns, part, sums.elements());
      __syncthreads();  // places are known
      begin += kMaxUnits;
      if (is_last && begin >= count.all) part.all_placed();
      add_units<Fits>(num_units, UnitProducts<P, M, Fits>(a_blocks, product.b.values, M != 0 ? M : product.m, sums));
      if (begin >= count.all) return;
      __syncthreads();  // the units before are no longer read
    }
  }

 private:
  /// Lists those units of the calling thread's segment that are among kMaxUnits from `begin` on, and, on the last
  /// thread, as many empty ones as make the last batch whole. Blocks behind the last block of B are not read: the unit
  /// begins before its own blocks.
  /// Threads: all of the CTA. Values: num_b_blocks >= kBlocks.
  __device__ void list(BSegment segment, CtaSum count, std::uint32_t begin, std::uint32_t num_b_blocks) {
    std::uint32_t x = count.before;
    const std::uint32_t skipped = x < begin ? begin - x : 0;
    x = x + skipped - begin;
    for (std::uint32_t first = segment.first + min(skipped, segment.end - segment.first) * kBlocks;
         first < segment.end && x < kMaxUnits; first += kBlocks, ++x) {
      const std::uint32_t read = min(first, num_b_blocks - kBlocks);
      const std::uint32_t before = first - read;
      const std::uint32_t through = min(segment.end - read, kBlocks);
      units[x] = {read, threadIdx.x | ((1u << through) - (1u << before)) << 16};
    }
    if (threadIdx.x + 1 != kThreads) return;
    for (x = min(count.all - begin, kMaxUnits); x % kBatch != 0; ++x) units[x] = {0, 0};
    next = 0;
  }

  /// Looks up where the products of each unit are added; those of blocks that do not belong to it, behind the last C
  /// block.
  /// Threads: all of the CTA, once units are listed.
  template <class Part>
  __device__ void place(std::uint32_t num_units, const std::uint32_t* b_columns, const Part& part,
                        std::uint32_t elements) {
    constexpr std::uint32_t kAtOnce = 4;  // loads in flight
    const std::uint32_t end = (num_units + kBatch - 1) / kBatch * kBatch * kBlocks;
    for (std::uint32_t x = threadIdx.x; x < end; x += kAtOnce * kThreads) {
      std::uint32_t columns[kAtOnce];
      bool are_there[kAtOnce];
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const std::uint32_t at = x + u * kThreads;
        const WorkUnit unit = at < end ? units[at / kBlocks] : WorkUnit{0, 0};
        are_there[u] = unit.has(at % kBlocks);
        if (are_there[u]) columns[u] = __ldg(b_columns + unit.b + at % kBlocks);
      }
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const std::uint32_t at = x + u * kThreads;
        if (at >= end) break;
        const std::uint32_t to = P == 4 ? (at & ~7u) | (at & 2) << 1 | (at & 4) >> 1 | (at & 1) : at;
        const std::uint32_t c_block = are_there[u] ? part.slot_of(columns[u]) : part.num_c_blocks;
        places[to] = static_cast<std::uint16_t>(c_block * elements);
      }
    }
  }

  /// Adds the products of listed units.
  /// Threads: all of the CTA.
  template <bool Fits, std::uint32_t M>
  __device__ void add_units(std::uint32_t num_units, const UnitProducts<P, M, Fits>& products) {
    const std::uint32_t num_batches = (num_units + kBatch - 1) / kBatch;
    std::uint32_t drawn = draw(&next);
    while (true) {
      const std::uint32_t batch = __shfl_sync(~0u, drawn, 0);
      if (batch >= num_batches) return;
      drawn = draw(&next);  // known when these products are added
      products.add(units + batch * kBatch, reinterpret_cast<const uint2*>(places) + batch * kBatch);
    }
  }
};

/// Side 8, if B segments are long: warps draw them as they are.
template <std::uint32_t Warps>
struct DrawnRound {
  static constexpr std::uint32_t kThreads = Warps * 32;  // and blocks of A
  BSegment segments[kThreads];
  std::uint32_t next;  // segment to be drawn

  /// Adds the products of a round; is_last: no other round follows.
  template <bool Fits, std::uint32_t M, class Part>
  __device__ void add(BSegment segment, bool is_last, const std::uint16_t* a_blocks, const RowProduct& product,
                      const Part& part, const Accumulators<M>& sums) {
    const std::uint32_t* const b_columns = product.b.index.columns;
    const std::uint32_t count = is_last ? (part.num_blocks - 1) % kThreads + 1 : kThreads;
    __syncthreads();  // the segments before are no longer read
    segments[threadIdx.x] = segment;
    if (threadIdx.x == 0) next = 0;
    __syncthreads();  // segments are listed; at first, sums are clear, too
    flag(count, b_columns, part);
    __syncthreads();  // all C blocks with pairs are flagged
    if (is_last) part.all_placed();
    const UnitProducts<8, M, Fits> products(a_blocks, product.b.values, M != 0 ? M : product.m, sums);
    std::uint32_t drawn = draw(&next);
    while (true) {
      const std::uint32_t x = __shfl_sync(~0u, drawn, 0);
      if (x >= count) return;
      drawn = draw(&next);  // known when these products are added
      products.add(x, segments[x], b_columns, part.first_column);
    }
  }

 private:
  /// Flags the C blocks that have pairs.
  /// Threads: all of the CTA, once segments are listed.
  template <class Part>
  __device__ void flag(std::uint32_t count, const std::uint32_t* b_columns, const Part& part) const {
    constexpr std::uint32_t kAtOnce = 2;  // segments, of which 64 blocks are loaded
    const std::uint32_t lane = threadIdx.x % 32;
    for (std::uint32_t x = threadIdx.x / 32; x < count; x += kAtOnce * Warps) {
      std::uint32_t columns[2 * kAtOnce];
#pragma unroll
      for (std::uint32_t u = 0; u < 2 * kAtOnce; ++u) {
        const BSegment one = segments[x + u / 2 * Warps];
        const std::uint32_t q = one.first + u % 2 * 32 + lane;
        columns[u] = q < one.end ? __ldg(b_columns + q) : kNoRow;
      }
#pragma unroll
      for (std::uint32_t u = 0; u < 2 * kAtOnce; ++u) {
        if (columns[u] != kNoRow) part.slot_of(columns[u]);
      }
#pragma unroll 1
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const BSegment one = segments[x + u * Warps];
        for (std::uint32_t q = one.first + 64 + lane; q < one.end; q += 32) part.slot_of(__ldg(b_columns + q));
      }
    }
  }
};

/// Sides of 16 and more: the B segments of a round, one for each thread, possibly empty; in shared memory.
template <std::uint32_t Warps, std::uint32_t P>
struct SegmentRound {
  static constexpr std::uint32_t kThreads = Warps * 32;  // and blocks of A
  BSegment segments[kThreads];
  std::uint32_t before[kThreads];  // pairs of the segments before it
  std::uint32_t of_warp[Warps];

  /// Adds the products of a round: each warp an equal share of the pairs.
  template <bool Fits, class Part>
  __device__ void add(BSegment segment, bool, const std::uint16_t* a_blocks, const RowProduct& product,
                      const Part& part, const Accumulators<0>& sums) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t warp = threadIdx.x / 32;
    const CtaSum pairs = cta_sum(segment.end - segment.first, of_warp, Warps);  // the segments before are done
    segments[threadIdx.x] = segment;
    before[threadIdx.x] = pairs.before;
    __syncthreads();                                              // segments are listed, sums are clear
    const std::uint32_t first = pairs.all * warp / Warps;         // kThreads * kMaxChunkBlocks * Warps fit 32 bits
    std::uint32_t left = pairs.all * (warp + 1) / Warps - first;  // of this warp
    if (left == 0) return;
    // The last segment that begins before is not empty.
    const std::uint32_t group =
        __popc(__ballot_sync(~0u, lane < Warps && before[lane % Warps * 32] <= first)) - 1;  // of 32 segments
    std::uint32_t x = group * 32 + __popc(__ballot_sync(~0u, before[group * 32 + lane] <= first)) - 1;
    for (std::uint32_t skipped = first - before[x]; left != 0; skipped = 0, ++x) {
      BSegment own = segments[x];
      own.first += skipped;
      own.end = min(own.end, own.first + left);
      if (own.first == own.end) continue;
      left -= own.end - own.first;
      add_wide<P, Fits>(
          a_blocks + x * (P * P), product.b, own, product.m, [&](std::uint32_t column) { return part.slot_of(column); },
          sums);
    }
  }
};

template <std::uint32_t Warps, std::uint32_t P>
using Round = std::conditional_t<P <= 8, UnitRound<Warps, P>, SegmentRound<Warps, P>>;

/// C blocks that have sums but no record: units add what does not belong to them there.
template <std::uint32_t P>
inline constexpr std::uint32_t kUnwritten = P <= 8 ? 1 : 0;

/// Adds the products of a row of A in rounds. Complete after the next barrier.
/// Values: Part = a part of the row of C, num_c_blocks of it; begin, num_blocks: the row's blocks of A;
/// segment(product, x): of block number x of these; slot_of(column): C block for a block of B, called for each;
/// all_placed(): called in the last round once it has been called for all, P <= 8. segment: of the calling thread in
/// the first round. Threads: all of the CTA.
template <std::uint32_t P, bool Fits, std::uint32_t M, class Part, class Round>
__device__ void add_row(Round& round, const RowProduct& product, const Part& part, BSegment segment,
                        const Accumulators<M>& sums) {
  const std::uint16_t* a_blocks = product.a.values + std::uint64_t{part.begin} * P * P;
#pragma unroll 1
  for (std::uint32_t first = 0;;) {
    const bool is_last = part.num_blocks - first <= Round::kThreads;
    round.template add<Fits>(segment, is_last, a_blocks, product, part, sums);
    if (is_last) return;
    first += Round::kThreads;
    a_blocks += Round::kThreads * P * P;
    segment = part.segment(product, first + threadIdx.x);
  }
}

}  // namespace spmm::kernels
