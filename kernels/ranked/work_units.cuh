// The B segments of a round of row-rank as units of four blocks of B (gustavson/work_units.cuh), for sides 4 and 8: a
// warp draws eight units at a time, whatever segments they come from, and finds the slots of their 32 blocks, a lane
// each.
#pragma once

#include "kernels/gustavson/work_units.cuh"
#include "kernels/ranked/launch.hpp"
#include "kernels/ranked/segments.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {

static_assert(WorkUnit::kBlocks == kRankUnitBlocks);

/// The units of a round, that is of up to kBlocks blocks of A, as many as there is room for.
template <std::uint32_t Warps>
struct RankWorkUnits {
  static constexpr std::uint32_t kThreads = Warps * 32;
  static constexpr std::uint32_t kPerThread = 1;
  static constexpr std::uint32_t kBlocks = kThreads;  // of A
  static constexpr std::uint32_t kMaxUnits = Warps * 64;
  static constexpr std::uint32_t kBatch = 32 / WorkUnit::kBlocks;  // units that a warp draws: a lane per block
  WorkUnit units[kMaxUnits];
  uint2 segments[kThreads];  // first block of B; blocks, and from bit 16 on the units before it in its warp
  std::uint32_t of_warp[Warps];
  std::uint32_t next;  // batch to be drawn

  struct Segments {
    BSegment of[kPerThread];
  };

  /// Notes the calling thread's segment, possibly empty. Returns the units of the warps up to that with the number of
  /// the lane: of all on the last lane.
  /// Threads: all of the CTA. The units before are no longer needed when it returns.
  __device__ std::uint32_t count(BSegment segment) {
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t blocks = segment.end - segment.first;  // no more than slots
    const std::uint32_t own = (blocks + WorkUnit::kBlocks - 1) / WorkUnit::kBlocks;
    const std::uint32_t through = inclusive_warp_sum(own);
    segments[threadIdx.x] = {segment.first, blocks | (through - own) << 16};
    if (lane == 31) of_warp[warp] = through;
    __syncthreads();  // segments of all threads are known
    return inclusive_warp_sum(lane < Warps ? of_warp[lane] : 0);
  }

  /// Lists `count` units from `begin` on and as many empty ones as make the last batch whole, a thread each. Blocks
  /// behind the last block of B are not read: the unit begins before its own blocks.
  /// Threads: all of the CTA. Values: through = what count() returned; num_b_blocks >= WorkUnit::kBlocks.
  __device__ void list(std::uint32_t through, std::uint32_t begin, std::uint32_t count, std::uint32_t num_b_blocks) {
    constexpr std::uint32_t kBlocks = WorkUnit::kBlocks;
    if (threadIdx.x == 0) next = 0;
#pragma unroll 1
    for (std::uint32_t x = threadIdx.x; x / 32 * 32 < count; x += kThreads) {
      std::uint32_t warp = 0;  // whose segment has the unit
      std::uint32_t unit = begin + x;
#pragma unroll
      for (std::uint32_t step = 16; step > 0; step /= 2) {
        if (__shfl_sync(~0u, through, warp + step - 1) <= unit) warp += step;
      }
      const std::uint32_t before = __shfl_sync(~0u, through, warp == 0 ? 0 : warp - 1);
      if (warp != 0) unit -= before;
      if (x >= count) {
        if (x < (count + kBatch - 1) / kBatch * kBatch) units[x] = {0, 0};
        continue;
      }
      std::uint32_t thread = warp * 32;
#pragma unroll
      for (std::uint32_t step = 16; step > 0; step /= 2) {
        if (segments[thread + step].y >> 16 <= unit) thread += step;
      }
      const uint2 segment = segments[thread];
      const std::uint32_t skipped = (unit - (segment.y >> 16)) * kBlocks;
      const std::uint32_t first = segment.x + skipped;
      const std::uint32_t read = min(first, num_b_blocks - kBlocks);
      const std::uint32_t skip = first - read;  // of what is read
      const std::uint32_t through_block = min((segment.y & 0xFFFFu) - skipped + skip, kBlocks);
      units[x] = {read, thread | ((1u << through_block) - (1u << skip)) << 16};
    }
  }

  /// Draws a batch; the number is known on the first lane. Values: one = 1; were it a constant, the compiler would look
  /// for other lanes that add.
  /// Threads: one whole warp.
  __device__ std::uint32_t draw(std::uint32_t one) {
    std::uint32_t batch = 0;
    if (threadIdx.x % 32 == 0) batch = atomicAdd(&next, one);  // each warp gets batches of its own
    return batch;
  }
};

/// A lane's block of B of a batch: number lane % 4 of unit lane / 4.
struct LaneBlock {
  bool is_there;
  std::uint32_t column;

  __device__ LaneBlock(WorkUnit unit, const std::uint32_t* b_columns)
      : is_there(unit.has(threadIdx.x % WorkUnit::kBlocks)), column(0) {
    if (is_there) column = __ldg(b_columns + unit.b + threadIdx.x % WorkUnit::kBlocks);
  }
};

/// Words between the window's first sum and those of two blocks of a batch, this lane's and the next one's. Blocks that
/// do not belong to their unit add behind the last C block.
/// Threads: one whole warp.
template <std::uint32_t M>
__device__ std::uint32_t two_places(const RankTargets<M>& to, LaneBlock block) {
  std::uint32_t slot = to.num_c_blocks;
  if (block.is_there) slot = to.slot_of(block.column);
  __syncwarp();  // searches differ in length
  const std::uint32_t place = slot * to.sums.elements();
  return __byte_perm(place, __shfl_down_sync(~0u, place, 1), 0x5410);
}

/// Products of side 4 of one batch; layout and work as add_units (gustavson/work_units.cuh).
template <std::uint32_t P, std::uint32_t M, bool Fits>
struct BatchProducts {
  static_assert(P == 4);
  static constexpr std::uint32_t kSteps = 4;  // of two units
  std::uint32_t half = threadIdx.x % 4 / 2;   // of K
  std::uint32_t h = threadIdx.x % 32 / 16;
  bool has_a = threadIdx.x / 4 % 2 == threadIdx.x % 4 / 2;
  bool is_element;
  std::uint32_t position;
  std::uint32_t base;
  const std::uint32_t* b_words;
  const std::uint32_t* a_words;

  __device__ BatchProducts(const std::uint16_t* a_blocks, const std::uint16_t* b_values, std::uint32_t m,
                           const Accumulators<M>& sums) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t row = lane % 4;
    const std::uint32_t column = lane / 4 % 4;
    is_element = M != 0 || (row < m && column < m);
    position = row * m + column;
    base = sums.base(position);
    b_words = as_base(reinterpret_cast<const std::uint32_t*>(b_values) + h * 16 + column * 2 + lane % 2);
    a_words = as_base(reinterpret_cast<const std::uint32_t*>(a_blocks) + lane / 8 * 2 + lane % 2);
  }

  /// load_ahead: called when the slots are known.
  /// Threads: one whole warp.
  template <class Ahead>
  __device__ void add(const WorkUnit* units, LaneBlock block, const RankTargets<M>& to, const Ahead& load_ahead) const {
    std::uint32_t a[kSteps];
    std::uint32_t top[kSteps];
    std::uint32_t bottom[kSteps];
#pragma unroll
    for (std::uint32_t u = 0; u < kSteps; ++u) {  // all loads of the batch are in flight
      const WorkUnit unit = units[2 * u + half];
      const std::uint32_t* const from = b_words + std::uint64_t{unit.b} * 8;
      top[u] = __ldg(from);
      bottom[u] = __ldg(from + 8);
      a[u] = __ldg(a_words + std::uint64_t{unit.a()} * 8);
    }
    const std::uint32_t places = two_places(to, block);
    load_ahead();
#pragma unroll
    for (std::uint32_t u = 0; u < kSteps; ++u) {
      const std::uint32_t of_first = __shfl_sync(~0u, places, 8 * u + 2 * h);
      const std::uint32_t of_second = __shfl_sync(~0u, places, 8 * u + 4 + 2 * h);
      const WordSums products(top[u], bottom[u], WordFactors(a[u], has_a));
      if (!is_element) continue;
      add_at_half<0, M, Fits>(of_first, base, position, products.template sum<Fits>(0), to.sums);
      add_at_half<1, M, Fits>(of_first, base, position, products.template sum<Fits>(2), to.sums);
      add_at_half<0, M, Fits>(of_second, base, position, products.template sum<Fits>(1), to.sums);
      add_at_half<1, M, Fits>(of_second, base, position, products.template sum<Fits>(3), to.sums);
    }
  }
};

/// Of side 8.
template <std::uint32_t M, bool Fits>
struct BatchProducts<8, M, Fits> {
  static constexpr std::uint32_t kUnits = 8;
  static constexpr std::uint32_t kBlocks = WorkUnit::kBlocks;
  bool are_elements[2];
  std::uint32_t position;
  std::uint32_t four_rows;
  std::uint32_t base;
  const std::uint32_t* b_words;
  const std::uint32_t* a_words;

  __device__ BatchProducts(const std::uint16_t* a_blocks, const std::uint16_t* b_values, std::uint32_t m,
                           const Accumulators<M>& sums) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t row = lane % 4;
    const std::uint32_t column = lane / 4;
    are_elements[0] = M != 0 || (row < m && column < m);
    are_elements[1] = M != 0 || (row + 4 < m && column < m);
    position = row * m + column;
    four_rows = 4 * (M != 0 ? M : m);
    base = sums.base(position);
    b_words = as_base(reinterpret_cast<const std::uint32_t*>(b_values) + lane);
    a_words = as_base(reinterpret_cast<const std::uint32_t*>(a_blocks) + (lane / 8 + lane / 4 % 2 * 4) * 4 + lane % 4);
  }

  /// Words of a unit: of A, of B.
  struct Words {
    std::uint32_t a;
    std::uint32_t b[kBlocks];
  };
  __device__ Words load(WorkUnit unit) const {
    Words words;
    const std::uint32_t* const from = b_words + std::uint64_t{unit.b} * 32;
    words.a = __ldg(a_words + std::uint64_t{unit.a()} * 32);
#pragma unroll
    for (std::uint32_t w = 0; w < kBlocks; ++w) words.b[w] = __ldg(from + w * 32);
    return words;
  }

  /// Adds the products of a block of B. First: of its sums.
  template <std::uint32_t First>
  __device__ void add_block(std::uint32_t at, std::uint32_t c_block, const WordSums& products,
                            const Accumulators<M>& sums) const {
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) {
      if (!are_elements[e]) continue;
      sums.template add_at<Fits>(at + e * 4 * four_rows, c_block, position + e * four_rows,
                                 products.template sum<Fits>(First + e));
    }
  }

  /// load_ahead: called when the slots are known.
  /// Threads: one whole warp.
  template <class Ahead>
  __device__ void add(const WorkUnit* units, LaneBlock block, const RankTargets<M>& to, const Ahead& load_ahead) const {
    Words next = load(units[0]);  // while slots are searched
    const std::uint32_t places = two_places(to, block);
    load_ahead();
#pragma unroll
    for (std::uint32_t u = 0; u < kUnits; ++u) {
      const Words words = next;
      if (u + 1 < kUnits) next = load(units[u + 1]);
      const WordFactors factors(words.a, true);
#pragma unroll
      for (std::uint32_t pair = 0; pair < 2; ++pair) {
        const std::uint32_t two = __shfl_sync(~0u, places, u * kBlocks + 2 * pair);
        const WordSums products(words.b[2 * pair], words.b[2 * pair + 1], factors);
        add_block<0>(__dp2a_lo(two, 4u, base), (two & 0xFFFFu) / to.sums.elements(), products, to.sums);
        add_block<2>(__dp2a_lo(two, 4u << 8, base), (two >> 16) / to.sums.elements(), products, to.sums);
      }
    }
  }
};

/// Adds the products of listed units.
/// Threads: all of the CTA, once units are listed.
template <std::uint32_t Warps, std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void add_rank_units(RankWorkUnits<Warps>& list, std::uint32_t num_units, const std::uint16_t* a_blocks,
                               const OperandView& b, std::uint32_t m, const RankTargets<M>& to) {
  constexpr std::uint32_t kBatch = RankWorkUnits<Warps>::kBatch;
  const BatchProducts<P, M, Fits> products(a_blocks, b.values, m, to.sums);
  const std::uint32_t num_batches = (num_units + kBatch - 1) / kBatch;
  const std::uint32_t one = min(num_units, 1u);
  const WorkUnit* const lane_units = list.units + threadIdx.x % 32 / WorkUnit::kBlocks;
  std::uint32_t batch = __shfl_sync(~0u, list.draw(one), 0);
  std::uint32_t next = list.draw(one);
  if (batch >= num_batches) return;
  LaneBlock block(lane_units[batch * kBatch], b.index.columns);
  while (true) {
    std::uint32_t ahead = 0;
    LaneBlock block_ahead = block;
    products.add(list.units + batch * kBatch, block, to, [&] {
      ahead = __shfl_sync(~0u, next, 0);
      next = list.draw(one);  // known when these products are added, as is the column
      block_ahead = LaneBlock(lane_units[min(ahead, num_batches - 1) * kBatch], b.index.columns);
    });
    if (ahead >= num_batches) return;
    batch = ahead;
    block = block_ahead;
  }
}

}  // namespace spmm::kernels
