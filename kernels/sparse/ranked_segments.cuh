// How a warp adds one block of A times some blocks of a row of B to sums by rank, for each padded side P. As
// segment_products.cuh, but each lane first finds the slot of one block of B, and the others get it from that lane.
#pragma once

#include "kernels/sparse/segment_products.cuh"

namespace spmm::kernels {

/// The columns of a window and the slots of their sums, in shared memory. A bucket holds the columns of an equal piece
/// of the window's span: most hold one or none.
struct RankedColumns {
  const std::uint32_t* columns;  // [slots], ascending
  const std::uint16_t* starts;   // [buckets + 1]: first slot of each bucket
  std::uint32_t first;           // column
  std::uint32_t shift;           // columns of a bucket: 2^shift

  /// Slot of a column. Values: one that the window has.
  [[nodiscard]] __device__ std::uint32_t slot_of(std::uint32_t column) const {
    const std::uint32_t bucket = (column - first) >> shift;
    std::uint32_t low = starts[bucket];
    std::uint32_t high = starts[bucket + 1];
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

/// Slots of the blocks [first, first + 32) of B, a lane each; behind `end`: the slot of the first of them.
/// Threads: one whole warp.
__device__ inline std::uint32_t slots_of_blocks(const OperandView& b, std::uint32_t first, std::uint32_t end,
                                                const RankedColumns& columns) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t slot = 0;
  if (lane < end - first) slot = columns.slot_of(__ldg(b.index.columns + first + lane));
  __syncwarp();  // searches differ in length
  return __shfl_sync(~0u, slot, lane < end - first ? lane : 0);
}

/// Loads a lane's words of some blocks of B, `stride` words apart.
template <std::uint32_t Loads>
__device__ inline void load_words(const std::uint32_t* from, std::uint32_t stride, std::uint32_t (&words)[Loads]) {
#pragma unroll
  for (std::uint32_t u = 0; u < Loads; ++u) words[u] = __ldg(from + u * stride);
}

/// P = 4: blocks [segment.first, segment.end) of B, eight at a time.
/// Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void add_ranked_4(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                             const RankedColumns& columns, std::uint32_t m, const Accumulators<M>& sums) {
  using Products = Products4<M, Fits>;
  constexpr std::uint32_t kBlocks = Products::kBlocks;
  const auto* next =
      reinterpret_cast<const std::uint32_t*>(b.values) + std::uint64_t{segment.first} * 8 + Products::first_word();
  const Products products(a_block, 0, m, sums);
  std::uint32_t slots[Products::kColumns];
#pragma unroll 1
  for (std::uint32_t q = segment.first; q < segment.end; q += 32) {
    const std::uint32_t count = min(32u, segment.end - q);
    std::uint32_t words[Products::kWords];
    if (count >= kBlocks) load_words(next, Products::kWordStride, words);  // while slots are searched
    const std::uint32_t slot = slots_of_blocks(b, q, segment.end, columns);
    std::uint32_t x = 0;
#pragma unroll 1
    for (; x + kBlocks <= count; x += kBlocks) {
      if (x != 0) load_words(next, Products::kWordStride, words);
      next += kBlocks * 8;
#pragma unroll
      for (std::uint32_t u = 0; u < Products::kColumns; ++u) {
        slots[u] = __shfl_sync(~0u, slot, x + Products::block(u));
      }
      products.add(slots, words, true);
    }
    if (x == count) continue;
#pragma unroll
    for (std::uint32_t u = 0; u < Products::kColumns; ++u) {  // behind the last one: lanes wrap around, zeros are added
      slots[u] = __shfl_sync(~0u, slot, x + Products::block(u));
    }
#pragma unroll
    for (std::uint32_t w = 0; w < Products::kWords; ++w) {
      words[w] = x + Products::loaded_block(w) < count ? __ldg(next + w * Products::kWordStride) : 0;
    }
    products.add(slots, words, count - x > 4);
  }
}

/// P = 8: the same, four at a time.
/// Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void add_ranked_8(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                             const RankedColumns& columns, std::uint32_t m, const Accumulators<M>& sums) {
  constexpr std::uint32_t kLoads = 4;
  constexpr std::uint32_t kStride = 32;
  using Products = Products8<M, Fits>;
  const auto* next = reinterpret_cast<const std::uint32_t*>(b.values) + std::uint64_t{segment.first} * kStride +
                     Products::first_word();
  const Products products(a_block, 0, m, sums);
  std::uint32_t slots[kLoads];
#pragma unroll 1
  for (std::uint32_t q = segment.first; q < segment.end; q += 32) {
    const std::uint32_t count = min(32u, segment.end - q);
    std::uint32_t words[kLoads];
    if (count >= kLoads) load_words(next, kStride, words);  // while slots are searched
    const std::uint32_t slot = slots_of_blocks(b, q, segment.end, columns);
    std::uint32_t x = 0;
#pragma unroll 1
    for (; x + kLoads <= count; x += kLoads) {
      if (x != 0) load_words(next, kStride, words);
      next += kStride * kLoads;
#pragma unroll
      for (std::uint32_t u = 0; u < kLoads; ++u) slots[u] = __shfl_sync(~0u, slot, x + u);
      products.add(slots, words, true);
      products.add(slots + 2, words + 2, true);
    }
    if (x == count) continue;
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) {
      words[u] = x + u < count ? __ldg(next + kStride * u) : 0;
      slots[u] = __shfl_sync(~0u, slot, x + u);
    }
    products.add(slots, words, count - x > 1);
    if (count - x > 2) products.add(slots + 2, words + 2, false);
  }
}

/// What the columns of a row are XORed with where m is 16: lanes add to every other column of eight in eight rows, of
/// which every second one begins in the same bank. Rows 0, 2, 4, 6 use even columns, odd ones, and the same of the
/// other half.
__device__ constexpr std::uint32_t ranked_swizzle(std::uint32_t row) {
  return row / 2 % 2 | row / 4 % 2 * 8;
}

/// P = 16: in pieces of 8 x 8 (Sums8), the columns of B loaded one piece ahead.
/// Threads: one whole warp.
template <std::uint32_t P, bool Fits>
__device__ void add_ranked_wide(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                                const RankedColumns& columns, std::uint32_t m, const Accumulators<0>& sums) {
  static_assert(P == 16);  // all rows of A at once
  constexpr std::uint32_t kRows = P / 8;
  const std::uint32_t from = Sums8::row() * P + threadIdx.x % 4 * 4;
  EightTerms<P> rows[kRows];
  std::uint32_t end_column[kRows];  // 0 where the row is padding
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
    const std::uint32_t slot = slots_of_blocks(b, q, segment.end, columns);
    const std::uint32_t count = min(32u, segment.end - q);
#pragma unroll 1
    for (std::uint32_t x = 0; x < count; ++x) {
      const std::uint32_t c_block = __shfl_sync(~0u, slot, x);
      const std::uint32_t base = sums.base(0) + c_block * sums.c_block_bytes();
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
            sums.template add_at<Fits>(base + p * 4, c_block, p, value);
          }
        }
      }
    }
  }
}

/// Whichever of these is made for P.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void add_ranked(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                           const RankedColumns& columns, std::uint32_t m, const Accumulators<M>& sums) {
  if constexpr (P == 4) {
    add_ranked_4<M, Fits>(a_block, b, segment, columns, m, sums);
  } else if constexpr (P == 8) {
    add_ranked_8<M, Fits>(a_block, b, segment, columns, m, sums);
  } else {
    add_ranked_wide<P, Fits>(a_block, b, segment, columns, m, sums);
  }
}

}  // namespace spmm::kernels
