// Exact sums over a part of a list of pairs: the arithmetic shared by ESC and split-K.
// Pairs: anything whose pair(p) is pair number p of the list.
#pragma once

#include <cstdint>

#include "kernels/sparse/byte_mma.cuh"
#include "kernels/sparse/row_dot.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// m = 4: lane % 16 -> element of the block; its sum over the pairs [begin, end).
template <class Pairs>
__device__ inline std::uint64_t sum_pairs_4(const PairValues& values, const Pairs& pairs, std::uint32_t begin,
                                            std::uint32_t end) {
  const std::uint32_t lane = threadIdx.x % 16;
  std::uint64_t sum = 0;
  for (std::uint32_t p = begin; p < end; ++p) {
    const BlockPair pair = pairs.pair(p);
    const uint2 row = __ldg(reinterpret_cast<const uint2*>(values.a + (std::uint64_t{pair.a} * 4 + lane / 4) * 4));
    const uint2 column = __ldg(reinterpret_cast<const uint2*>(values.b + (std::uint64_t{pair.b} * 4 + lane % 4) * 4));
    std::uint64_t products = 0;
    add_products(row, column, products);
    sum += products;
  }
  return sum;
}

/// The terms of a lane in the m = 8 products of two pairs on tensor cores: four elements of each operand, of the first
/// pair where lane % 4 < 2, else of the second.
/// Layout: two products of 16 x 8 x 16 bytes (byte_mma.cuh).
///
///                                       K 0-7           K 8-15
///   first operand, rows 0-7:            high(A), pair 0  high(A), pair 1
///     rows of A    rows 8-15:           low(A),  pair 0  low(A),  pair 1
///   second operand, columns of B:       pair 0           pair 1;  high(B), then low(B) in the second product
///   result of high(B), rows 0-7, 8-15:  high, middle
///   result of low(B):                   middle, low
///
/// A lane's sums are those of row lane / 4, columns 2 * (lane % 4) and the next.
struct Terms8 {
  uint2 a{0, 0};
  uint2 b{0, 0};
};

/// The terms of pairs p and p + 1; zeros for pairs from `end` on.
template <class Pairs>
__device__ inline Terms8 load_terms_8(const PairValues& values, const Pairs& pairs, std::uint32_t p,
                                      std::uint32_t end) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t from = lane / 4 * 8 + lane % 2 * 4;
  const std::uint32_t own = p + lane % 4 / 2;
  if (own >= end) return {};
  const BlockPair pair = pairs.pair(own);
  return {.a = __ldg(reinterpret_cast<const uint2*>(values.a + std::uint64_t{pair.a} * 64 + from)),
          .b = __ldg(reinterpret_cast<const uint2*>(values.b + std::uint64_t{pair.b} * 64 + from))};
}

struct Sums8 {
  static constexpr std::uint32_t kMaxPairs = 4096;  // 8 * 4096 terms of 255 * 255 fit 32 bits
  std::uint32_t high[4] = {};
  std::uint32_t low[4] = {};

  /// Threads: one whole warp.
  __device__ void add(const Terms8& terms) {
    const BytePair a = split_bytes(terms.a);
    const BytePair b = split_bytes(terms.b);
    mma_u8_16x8x16(high, a.high, a.low, b.high);
    mma_u8_16x8x16(low, a.high, a.low, b.low);
  }
  [[nodiscard]] __device__ std::uint64_t sum(std::uint32_t e) const {
    return (std::uint64_t{high[e]} << 16) + ((std::uint64_t{high[2 + e]} + low[e]) << 8) + low[2 + e];
  }
  /// The same where the result fits 32 bits.
  [[nodiscard]] __device__ std::uint32_t small_sum(std::uint32_t e) const {
    return (high[e] << 16) + ((high[2 + e] + low[e]) << 8) + low[2 + e];
  }
};

/// m = 8: adds the products of the pairs [begin, end) to the sums of a lane.
/// Threads: one whole warp.
template <class Pairs>
__device__ inline void add_pairs_8(const PairValues& values, const Pairs& pairs, std::uint32_t begin, std::uint32_t end,
                                   std::uint64_t (&sums)[2]) {
  for (std::uint32_t p = begin; p < end;) {
    Sums8 products;
    for (const std::uint32_t part_end = min(end, p + Sums8::kMaxPairs); p < part_end; p += 2) {
      const Terms8 terms = load_terms_8(values, pairs, p, end);
      __syncwarp();  // mma.sync needs all lanes
      products.add(terms);
    }
    sums[0] += products.sum(0);
    sums[1] += products.sum(1);
  }
}

/// m = 16, 32, 64 on tensor cores: adds the products of the pairs [begin, end) to the sums of a lane for 16 rows and 8
/// columns of the block, laid out as WideSums says.
/// Threads: one whole warp.
template <std::uint32_t M, class Pairs>
__device__ inline void add_pairs_wide(const PairValues& values, const Pairs& pairs, std::uint32_t begin,
                                      std::uint32_t end, std::uint32_t row, std::uint32_t column,
                                      std::uint64_t (&sums)[4]) {
  constexpr std::uint32_t kMaxPairs = WideSums::kMaxTerms / M;
  for (std::uint32_t p = begin; p < end;) {
    WideSums products;
    for (const std::uint32_t part_end = min(end, p + kMaxPairs); p < part_end; ++p) {
      const BlockPair pair = pairs.pair(p);
      const WideRows<M> rows(values.a + (std::uint64_t{pair.a} * M + row) * M);
      products.add(rows, values.b + (std::uint64_t{pair.b} * M + column) * M);
    }
#pragma unroll
    for (std::uint32_t e = 0; e < 4; ++e) sums[e] += products.sum(e);
  }
}

/// Any m: the sum of element e over the pairs [begin, end).
template <class Pairs>
__device__ inline std::uint64_t sum_pairs_any_m(const PairValues& values, const Pairs& pairs, std::uint32_t begin,
                                                std::uint32_t end, std::uint32_t m, std::uint32_t e) {
  std::uint64_t sum = 0;
  for (std::uint32_t p = begin; p < end; ++p) {
    const BlockPair pair = pairs.pair(p);
    sum +=
        dot(values.a + (std::uint64_t{pair.a} * m + e / m) * m, values.b + (std::uint64_t{pair.b} * m + e % m) * m, m);
  }
  return sum;
}

}  // namespace spmm::kernels
