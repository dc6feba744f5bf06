// B segments of blocks of side 4 and 8, cut into units of four blocks and listed, so that warps multiply full units of
// any segments without looking at a segment again.
#pragma once

#include "kernels/gustavson/column_chunks.cuh"
#include "kernels/gustavson/segment_products.cuh"

namespace spmm::kernels {

/// One block of A and four successive blocks of B, some of which may not belong to the segment.
struct WorkUnit {
  static constexpr std::uint32_t kBlocks = 4;
  std::uint32_t b;  // first block of B
  std::uint32_t
      a_there;  // block of A, from the round's first one on; from bit 16 on, a bit for each block that belongs

  [[nodiscard]] __device__ std::uint32_t a() const { return a_there & 0xFFFFu; }
  [[nodiscard]] __device__ bool has(std::uint32_t block) const { return a_there >> (16 + block) & 1; }
};

/// The units of a round, as many as there is room for, and where in shared memory the sums of their C blocks are. P:
/// side of the blocks.
template <std::uint32_t P>
struct WorkUnitList {
  static constexpr std::uint32_t kMaxUnits = P == 4 ? 1024 : 1152;
  static constexpr std::uint32_t kBatch = P == 4 ? 8 : 4;  // units that a warp draws at once
  static constexpr std::uint32_t kThreads = ColumnChunks::kThreads;
  static constexpr std::uint32_t kWarps = ColumnChunks::kWarps;
  WorkUnit units[kMaxUnits];
  // Words between the chunk's first sum and those of each block's products. Layout: of a unit in a row; P = 4: of two
  // units the first two blocks each, then the others.
  alignas(16) std::uint16_t sums[kMaxUnits * WorkUnit::kBlocks];
  std::uint32_t of_warp[kWarps];
  std::uint32_t next;  // batch to be drawn

  /// Units of the segments of all threads, and of those before the calling one.
  struct Count {
    std::uint32_t all;
    std::uint32_t before;
  };

  /// Threads: all of the CTA.
  __device__ Count count(BSegment segment) {
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t own = (segment.end - segment.first + WorkUnit::kBlocks - 1) / WorkUnit::kBlocks;
    const std::uint32_t through = inclusive_warp_sum(own);
    if (lane == 31) of_warp[warp] = through;
    __syncthreads();  // units of all warps are known; at first, sums and flags are clear, too
    const std::uint32_t warps_through = inclusive_warp_sum(lane < kWarps ? of_warp[lane] : 0);
    const std::uint32_t before = __shfl_sync(~0u, warps_through, warp == 0 ? 0 : warp - 1);
    return {.all = __shfl_sync(~0u, warps_through, 31), .before = (warp == 0 ? 0 : before) + through - own};
  }

  /// Lists those units of the calling thread's segment that are among kMaxUnits from `begin` on, and, on the last
  /// thread, as many empty ones as make the last batch whole. Blocks behind the last block of B are not read: the unit
  /// begins before its own blocks.
  /// Threads: all of the CTA. Values: num_b_blocks >= WorkUnit::kBlocks.
  __device__ void list(BSegment segment, Count units_count, std::uint32_t begin, std::uint32_t num_b_blocks) {
    constexpr std::uint32_t kBlocks = WorkUnit::kBlocks;
    std::uint32_t x = units_count.before;
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
    for (x = min(units_count.all - begin, kMaxUnits); x % kBatch != 0; ++x) units[x] = {0, 0};
    next = 0;
  }

  /// Looks up where the products of each unit are added; those of blocks that do not belong to it, behind the last C
  /// block. Calls mark(C block) for the others.
  /// Threads: all of the CTA, once units are listed.
  template <class Mark>
  __device__ void place(std::uint32_t num_units, const std::uint32_t* b_columns, std::uint32_t first_column,
                        std::uint32_t num_c_blocks, std::uint32_t elements, const Mark& mark) {
    constexpr std::uint32_t kAtOnce = 4;  // loads in flight
    constexpr std::uint32_t kBlocks = WorkUnit::kBlocks;
    const std::uint32_t end = (num_units + kBatch - 1) / kBatch * kBatch * kBlocks;
    for (std::uint32_t x = threadIdx.x; x < end; x += kAtOnce * kThreads) {
      std::uint32_t c_blocks[kAtOnce];
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const std::uint32_t at = x + u * kThreads;
        const WorkUnit unit = at < end ? units[at / kBlocks] : WorkUnit{0, 0};
        const std::uint32_t block = at % kBlocks;
        c_blocks[u] = unit.has(block) ? __ldg(b_columns + unit.b + block) - first_column : num_c_blocks;
      }
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const std::uint32_t at = x + u * kThreads;
        if (at >= end) break;
        const std::uint32_t to = P == 4 ? (at & ~7u) | (at & 2) << 1 | (at & 4) >> 1 | (at & 1) : at;
        sums[to] = static_cast<std::uint16_t>(c_blocks[u] * elements);
        if (c_blocks[u] != num_c_blocks) mark(c_blocks[u]);
      }
    }
  }

  /// Draws a batch; the number is known on the first lane.
  /// Threads: one whole warp.
  __device__ std::uint32_t draw() {
    return draw_number(&next);
  }
};

/// Adds a product at a place that WorkUnitList::sums tells. Which: the lower or upper half of `two`.
/// Layout: base = address of the lane's element of the chunk's first C block, position = that element.
template <std::uint32_t Which, std::uint32_t M, bool Fits>
__device__ void add_at_half(std::uint32_t two, std::uint32_t base, std::uint32_t position, std::uint64_t value,
                            const Accumulators<M>& sums) {
  const std::uint32_t at = __dp2a_lo(two, Which == 0 ? 4u : 4u << 8, base);  // four bytes for each word
  const std::uint32_t c_block = (Which == 0 ? two & 0xFFFFu : two >> 16) / sums.elements();
  sums.template add_at<Fits>(at, c_block, position, value);
}

/// The products of drawn units of side 4 on tensor cores, two units at a time, a half of K each.
/// Layout: h = 0, 1; s = 0, 1.
///
///   first operand     K 0-7                            8-15
///   row 4h + c        column c of block 2h, unit 0     of unit 1
///   row 8 + 4h + c    column c of block 2h + 1         of unit 1
///   second operand, column 2r + s: row r of A in half s of K, zeros in the other
///   result, column 2r + s:  element (r, c) of a block of unit s
///
/// Work: lane -> row r = lane % 4, column c = lane / 4 % 4 of blocks 2h and 2h + 1, h = lane / 16, of both units.
template <std::uint32_t M, bool Fits>
__device__ void add_units(WorkUnitList<4>& list, std::uint32_t num_units, const std::uint16_t* a_blocks,
                          const std::uint16_t* b_values, std::uint32_t m, const Accumulators<M>& sums) {
  constexpr std::uint32_t kBatch = WorkUnitList<4>::kBatch;
  constexpr std::uint32_t kSteps = kBatch / 2;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t half = lane % 4 / 2;  // of K
  const std::uint32_t h = lane / 16;
  const std::uint32_t row = lane % 4;
  const std::uint32_t column = lane / 4 % 4;
  const bool has_a = lane / 4 % 2 == half;
  const bool is_element = M != 0 || (row < m && column < m);
  const std::uint32_t position = row * m + column;
  const std::uint32_t base = sums.base(position);
  const std::uint32_t* const b_words =
      as_base(reinterpret_cast<const std::uint32_t*>(b_values) + h * 16 + column * 2 + lane % 2);
  const std::uint32_t* const a_words =
      as_base(reinterpret_cast<const std::uint32_t*>(a_blocks) + lane / 8 * 2 + lane % 2);
  const std::uint32_t num_batches = (num_units + kBatch - 1) / kBatch;
  std::uint32_t next = list.draw();
  while (true) {
    const std::uint32_t batch = __shfl_sync(~0u, next, 0);
    if (batch >= num_batches) return;
    next = list.draw();  // known when these products are added
    const WorkUnit* const units = list.units + batch * kBatch + half;
    const auto* const places = reinterpret_cast<const uint2*>(list.sums) + batch * kBatch + h;
    std::uint32_t a[kSteps];
    std::uint32_t top[kSteps];
    std::uint32_t bottom[kSteps];
#pragma unroll
    for (std::uint32_t u = 0; u < kSteps; ++u) {  // all loads of the batch are in flight
      const WorkUnit unit = units[2 * u];
      const std::uint32_t* const from = b_words + std::uint64_t{unit.b} * 8;
      top[u] = __ldg(from);
      bottom[u] = __ldg(from + 8);
      a[u] = __ldg(a_words + std::uint64_t{unit.a()} * 8);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kSteps; ++u) {
      const WordSums products(top[u], bottom[u], WordFactors(a[u], has_a));
      const uint2 to = places[2 * u];  // of unit 0, of unit 1
      if (!is_element) continue;
      add_at_half<0, M, Fits>(to.x, base, position, products.template sum<Fits>(0), sums);
      add_at_half<1, M, Fits>(to.x, base, position, products.template sum<Fits>(2), sums);
      add_at_half<0, M, Fits>(to.y, base, position, products.template sum<Fits>(1), sums);
      add_at_half<1, M, Fits>(to.y, base, position, products.template sum<Fits>(3), sums);
    }
  }
}

/// The same for side 8; layout and work as Products8.
template <std::uint32_t M, bool Fits>
__device__ void add_units(WorkUnitList<8>& list, std::uint32_t num_units, const std::uint16_t* a_blocks,
                          const std::uint16_t* b_values, std::uint32_t m, const Accumulators<M>& sums) {
  constexpr std::uint32_t kBatch = WorkUnitList<8>::kBatch;
  constexpr std::uint32_t kAtOnce = 2;  // units, whose loads are in flight
  constexpr std::uint32_t kBlocks = WorkUnit::kBlocks;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t row = lane % 4;
  const std::uint32_t column = lane / 4;
  const bool are_elements[2] = {M != 0 || (row < m && column < m), M != 0 || (row + 4 < m && column < m)};
  const std::uint32_t position = row * m + column;
  const std::uint32_t four_rows = 4 * m;
  const std::uint32_t base = sums.base(position);
  const std::uint32_t* const b_words = as_base(reinterpret_cast<const std::uint32_t*>(b_values) + lane);
  const std::uint32_t* const a_words =
      as_base(reinterpret_cast<const std::uint32_t*>(a_blocks) + (lane / 8 + lane / 4 % 2 * 4) * 4 + lane % 4);
  const std::uint32_t num_batches = (num_units + kBatch - 1) / kBatch;
  std::uint32_t next = list.draw();
  while (true) {
    const std::uint32_t batch = __shfl_sync(~0u, next, 0);
    if (batch >= num_batches) return;
    next = list.draw();  // known when these products are added
#pragma unroll
    for (std::uint32_t x = 0; x < kBatch; x += kAtOnce) {
      const WorkUnit* const units = list.units + batch * kBatch + x;
      const auto* const places = reinterpret_cast<const uint2*>(list.sums) + batch * kBatch + x;
      std::uint32_t a[kAtOnce];
      std::uint32_t words[kAtOnce][kBlocks];
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const std::uint32_t* const from = b_words + std::uint64_t{units[u].b} * 32;
        a[u] = __ldg(a_words + std::uint64_t{units[u].a()} * 32);
#pragma unroll
        for (std::uint32_t w = 0; w < kBlocks; ++w) words[u][w] = __ldg(from + w * 32);
      }
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const WordFactors factors(a[u], true);
        const uint2 to = places[u];
#pragma unroll
        for (std::uint32_t half = 0; half < 2; ++half) {
          const WordSums products(words[u][2 * half], words[u][2 * half + 1], factors);
          const std::uint32_t two = half == 0 ? to.x : to.y;
#pragma unroll
          for (std::uint32_t e = 0; e < 2; ++e) {
            if (!are_elements[e]) continue;
            const std::uint32_t at = base + e * 4 * four_rows;
            const std::uint32_t p = position + e * four_rows;
            add_at_half<0, M, Fits>(two, at, p, products.template sum<Fits>(e), sums);
            add_at_half<1, M, Fits>(two, at, p, products.template sum<Fits>(2 + e), sums);
          }
        }
      }
    }
  }
}

}  // namespace spmm::kernels
