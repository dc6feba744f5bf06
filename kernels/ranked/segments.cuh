// How a warp adds one block of A times some blocks of a row of B to sums by rank, for each padded side P. As
// How a warp adds one block of A times some blocks of a row of B to sums by rank, for each padded side P. As
// segment_products.cuh, but each lane first finds the slot of one block of B, and the others get it from that lane.
// segment_products.cuh, but each lane first finds the slot of one block of B, and the others get it from that lane.
#pragma once
#pragma once

#include "kernels/gustavson/segment_products.cuh"

namespace spmm::kernels {

/// The columns of a window and the slots of their sums, in shared memory. A bucket holds the columns of an equal piece
/// of the window's span: most hold one or none.
struct RankedColumns {
  const std::uint32_t* columns;  // [slots], ascending
  const std::uint16_t* buckets;  // [buckets, 2]: first slot of each one that has columns, and where its slots end
  std::uint32_t first;           // column
  std::uint32_t shift;           // columns of a bucket: 2^shift

  /// Slot of a column. Values: one that the window has.
  [[nodiscard]] __device__ std::uint32_t slot_of(std::uint32_t column) const {
    const std::uint32_t bucket = (column - first) >> shift;
    const std::uint32_t ends = reinterpret_cast<const std::uint32_t*>(buckets)[bucket];
    std::uint32_t low = ends & 0xFFFFu;
    std::uint32_t high = ends >> 16;
#pragma unroll 1
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      if (columns[middle] <= column) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// Where the pairs of a window are added.
template <std::uint32_t M>
struct RankTargets {
  const RankedColumns& columns;
  const Accumulators<M>& sums;  // of C blocks, and one behind them that is none
  std::uint32_t num_c_blocks;
  std::uint32_t* counts;  // pairs of each C block, shared, count_stride words apart; null = not wanted
  std::uint32_t count_stride;

  /// Slot of the C block in a column, which gets a pair. Values: a column that the window has.
  [[nodiscard]] __device__ std::uint32_t slot_of(std::uint32_t column) const {
    const std::uint32_t slot = columns.slot_of(column);
    if (counts != nullptr) atomicAdd(counts + slot * count_stride, 1);  // other warps add to the same C block
    return slot;
  }
};

/// Slots of the blocks [first, first + 32) of B, a lane each; behind `end`: the slot of the first of them.
/// Threads: one whole warp.
template <std::uint32_t M>
__device__ std::uint32_t slots_of_blocks(const OperandView& b, std::uint32_t first, std::uint32_t end,
                                         const RankTargets<M>& to) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t slot = 0;
  if (lane < end - first) slot = to.slot_of(__ldg(b.index.columns + first + lane));
  __syncwarp();  // searches differ in length
  return __shfl_sync(~0u, slot, lane < end - first ? lane : 0);
}

/// What the columns of a row are XORed with if m is 16: lanes add to every other column of eight in eight rows, of
/// which every second one begins in the same bank. Rows 0, 2, 4, 6 use even columns, odd ones, and the same of the
/// other half.
__device__ constexpr std::uint32_t ranked_swizzle(std::uint32_t row) {
  return row / 2 % 2 | row / 4 % 2 * 8;
}

/// P = 16: in pieces of 8 x 8 (Sums8), the columns of B loaded one piece ahead.
/// Threads: one whole warp.
template <std::uint32_t P, bool Fits>
__device__ void add_ranked_wide(const std::uint16_t* a_block, const OperandView& b, BSegment segment, std::uint32_t m,
                                const RankTargets<0>& to) {
  static_assert(P == 16);  // all rows of A at once
  constexpr std::uint32_t kRows = P / 8;
  const std::uint32_t from = Sums8::row() * P + threadIdx.x % 4 * 4;
  EightTerms<P> rows[kRows];
  std::uint32_t end_column[kRows];  // 0 if the row is padding
  std::uint32_t positions[kRows];   // of the row's first element
#pragma unroll
  for (std::uint32_t r = 0; r < kRows; ++r) {
    rows[r].load(a_block + r * 8 * P + from);
    end_column[r] = r * 8 + Sums8::row() < m ? m : 0;
    positions[r] = (r * 8 + Sums8::row()) * m;
  }
  const std::uint32_t swizzle = m == P ? ranked_swizzle(Sums8::row()) : 0;  // the same for every eighth row
  const std::uint16_t* next = b.values + std::uint64_t{segment.first} * P * P + from;
  EightTerms<P> ahead;
  ahead.load(next);
#pragma unroll 1
  for (std::uint32_t q = segment.first; q < segment.end; q += 32) {
    const std::uint32_t slot = slots_of_blocks(b, q, segment.end, to);
    const std::uint32_t count = min(32u, segment.end - q);
#pragma unroll 1
    for (std::uint32_t x = 0; x < count; ++x) {
      const std::uint32_t c_block = __shfl_sync(~0u, slot, x);
      const std::uint32_t base = to.sums.base(0) + c_block * to.sums.c_block_bytes();
#pragma unroll
      for (std::uint32_t column = 0; column < P; column += 8) {
        const EightTerms<P> terms = ahead;
        next += 8 * P;
        if (column + 8 < P || q + x + 1 < segment.end) ahead.load(next);
        __syncwarp();  // mma.sync needs all lanes
        Sums8 products[kRows];
#pragma unroll
        for (std::uint32_t s = 0; s < EightTerms<P>::kSteps; ++s) {
          const BytePair of_b = split_bytes(terms.terms[s]);
#pragma unroll
          for (std::uint32_t r = 0; r < kRows; ++r) products[r].add(split_bytes(rows[r].terms[s]), of_b);
        }
#pragma unroll
        for (std::uint32_t r = 0; r < kRows; ++r) {
#pragma unroll
          for (std::uint32_t e = 0; e < 2; ++e) {
            const std::uint32_t own = column + Sums8::column() + e;
            if (own >= end_column[r]) continue;
            const std::uint64_t value = combine<Fits>(products[r].high[e], products[r].high[2 + e] + products[r].low[e],
                                                      products[r].low[2 + e]);
            const std::uint32_t p = positions[r] + (own ^ swizzle);
            to.sums.template add_at<Fits>(base + p * 4, c_block, p, value);
          }
        }
      }
    }
  }
}

}  // namespace spmm::kernels
