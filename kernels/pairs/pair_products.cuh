// Exact sums over a part of a list of pairs: the arithmetic shared by ESC and split-K.
// Pairs: anything whose pair(p) is pair number p of the list.
#pragma once

#include <cstdint>

#include "kernels/byte_mma.cuh"
#include "kernels/row_dot.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// Side 4: lane % 16 -> element of the block; its sum over the pairs [begin, end).
template <class Pairs>
__device__ inline std::uint64_t sum_pairs_4(const RowProduct& product, const Pairs& pairs, std::uint32_t begin,
                                            std::uint32_t end) {
  const std::uint32_t lane = threadIdx.x % 16;
  std::uint64_t sum = 0;
  for (std::uint32_t p = begin; p < end; ++p) {
    const BlockPair pair = pairs.pair(p);
    const uint2 row =
        __ldg(reinterpret_cast<const uint2*>(product.a.values + (std::uint64_t{pair.a} * 4 + lane / 4) * 4));
    const uint2 column =
        __ldg(reinterpret_cast<const uint2*>(product.b.values + (std::uint64_t{pair.b} * 4 + lane % 4) * 4));
    std::uint64_t products = 0;
    add_products(row, column, products);
    sum += products;
  }
  return sum;
}

/// The terms of a lane in the products of side 8 of two pairs on tensor cores: four elements of each operand, of the
/// first pair if lane % 4 < 2, else of the second. Layout: two products of 16 x 8 x 16 bytes (byte_mma.cuh).
///
///                                       K 0-7           K 8-15
///   first operand, rows 0-7:            high(A), pair 0  high(A), pair 1
///     rows of A    rows 8-15:           low(A),  pair 0  low(A),  pair 1
///   second operand, columns of B:       pair 0           pair 1;  high(B), then low(B) in the second product
///   result of high(B), rows 0-7, 8-15:  high, middle
///   result of low(B):                   middle, low (Sums8)
struct Terms8 {
  uint2 a{0, 0};
  uint2 b{0, 0};
};

/// The terms of pairs p and p + 1; zeros for pairs from `end` on.
template <class Pairs>
__device__ inline Terms8 load_terms_8(const RowProduct& product, const Pairs& pairs, std::uint32_t p,
                                      std::uint32_t end) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t from = lane / 4 * 8 + lane % 2 * 4;
  const std::uint32_t own = p + lane % 4 / 2;
  if (own >= end) return {};
  const BlockPair pair = pairs.pair(own);
  return {.a = __ldg(reinterpret_cast<const uint2*>(product.a.values + std::uint64_t{pair.a} * 64 + from)),
          .b = __ldg(reinterpret_cast<const uint2*>(product.b.values + std::uint64_t{pair.b} * 64 + from))};
}

/// Side 8: adds the products of the pairs [begin, end) to the sums of a lane.
/// Threads: one whole warp.
template <class Pairs>
__device__ inline void add_pairs_8(const RowProduct& product, const Pairs& pairs, std::uint32_t begin,
                                   std::uint32_t end, std::uint64_t (&sums)[2]) {
  constexpr std::uint32_t kMaxPairs = Sums8::kMaxTerms / 8;
  for (std::uint32_t p = begin; p < end;) {
    Sums8 products;
    for (const std::uint32_t part_end = min(end, p + kMaxPairs); p < part_end; p += 2) {
      const Terms8 terms = load_terms_8(product, pairs, p, end);
      __syncwarp();  // mma.sync needs all lanes
      products.add(split_bytes(terms.a), split_bytes(terms.b));
    }
    sums[0] += products.sum(0);
    sums[1] += products.sum(1);
  }
}

/// A lane's elements of a C block, saturated: the first two pairs are loaded, others are [next, end).
/// Threads: one whole warp.
template <class Pairs>
__device__ inline uint2 multiply_terms_8(const Terms8& terms, const RowProduct& product, const Pairs& pairs,
                                         std::uint32_t next, std::uint32_t end) {
  __syncwarp();  // mma.sync needs all lanes
  Sums8 products;
  products.add(split_bytes(terms.a), split_bytes(terms.b));
  if (product.fitting_pairs >= 2 && next >= end) return uint2{products.small_sum(0), products.small_sum(1)};
  std::uint64_t sums[2] = {products.sum(0), products.sum(1)};
  add_pairs_8(product, pairs, next, end, sums);
  return uint2{saturate(sums[0]), saturate(sums[1])};
}

/// What a warp computes of a C block of side P, a multiple of eight from 16 on, at a time: kRows by kColumns pieces of
/// 8 x 8, with 8 registers of sums each. Each operand that is loaded is used kColumns or kRows times.
template <std::uint32_t P>
struct WarpTile {
  static constexpr std::uint32_t kEights = P / 8;
  static constexpr std::uint32_t kRows = kEights % 2 == 0 ? 2 : 1;
  static constexpr std::uint32_t kColumns = kRows == 2 ? 2 : 3;
  static constexpr std::uint32_t kPerRow = kEights / kColumns;  // tiles of a C block side by side
  static_assert(kEights % kColumns == 0);
  static constexpr std::uint32_t kCount = kEights / kRows * kPerRow;  // tiles of a C block

  std::uint32_t first_row;  // element of the block
  std::uint32_t first_column;

  __device__ explicit WarpTile(std::uint32_t number)
      : first_row(number / kPerRow * kRows * 8), first_column(number % kPerRow * kColumns * 8) {}
};

template <std::uint32_t P>
struct TileSums {
  using Tile = WarpTile<P>;
  Sums8 eights[Tile::kRows][Tile::kColumns];

  /// Adds 16 terms: a, b = a lane's part of the first rows and columns, four terms each; zeros if they are not
  /// there.
  __device__ void add(const std::uint16_t* a, const std::uint16_t* b, bool there) {
    BytePair rows[Tile::kRows];
#pragma unroll
    for (std::uint32_t r = 0; r < Tile::kRows; ++r) {
      rows[r] = split_bytes(there ? __ldg(reinterpret_cast<const uint2*>(a + r * 8 * P)) : uint2{0, 0});
    }
    uint2 columns[Tile::kColumns];
#pragma unroll
    for (std::uint32_t c = 0; c < Tile::kColumns; ++c) {
      columns[c] = there ? __ldg(reinterpret_cast<const uint2*>(b + c * 8 * P)) : uint2{0, 0};
    }
    __syncwarp();  // mma.sync needs all lanes
#pragma unroll
    for (std::uint32_t c = 0; c < Tile::kColumns; ++c) {
      const BytePair column = split_bytes(columns[c]);
#pragma unroll
      for (std::uint32_t r = 0; r < Tile::kRows; ++r) eights[r][c].add(rows[r], column);
    }
  }
};

/// Adds the products of the pairs [begin, end) to the sums of a tile. Side 16 and more. The terms of successive pairs
/// follow each other in eights, two of which make a product: with an odd number per block, the middle one of two pairs
/// is made of the last eight of the first and the first eight of the second.
/// Values: at most Sums8::kMaxTerms / P pairs.
/// Threads: one whole warp.
template <std::uint32_t P, class Pairs>
__device__ inline void add_pairs_tile(const RowProduct& product, const Pairs& pairs, std::uint32_t begin,
                                      std::uint32_t end, const WarpTile<P>& tile, TileSums<P>& sums) {
  constexpr std::uint32_t kEights = P / 8;
  constexpr std::uint32_t kPairs = kEights % 2 == 0 ? 1 : 2;  // at a time
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t half = lane % 4 / 2;
  const std::uint32_t from_a = (tile.first_row + lane / 4) * P + lane % 2 * 4;
  const std::uint32_t from_b = (tile.first_column + lane / 4) * P + lane % 2 * 4;
  for (std::uint32_t p = begin; p < end; p += kPairs) {
    const bool has_second = kPairs == 2 && p + 1 < end;
    const BlockPair pair = pairs.pair(p);
    const std::uint16_t* a = product.a.values + std::uint64_t{pair.a} * P * P + from_a;
    const std::uint16_t* b = product.b.values + std::uint64_t{pair.b} * P * P + from_b;
    const std::uint16_t* second_a = a;
    const std::uint16_t* second_b = b;
    if (has_second) {
      const BlockPair second = pairs.pair(p + 1);
      second_a = product.a.values + std::uint64_t{second.a} * P * P + from_a;
      second_b = product.b.values + std::uint64_t{second.b} * P * P + from_b;
    }
#pragma unroll
    for (std::uint32_t x = 0; x < kEights * kPairs; x += 2) {
      if (x >= kEights && !has_second) break;  // the same for all lanes
      const std::uint32_t own = x + half;
      const bool of_second = own >= kEights;
      const std::uint32_t k = (of_second ? own - kEights : own) * 8;
      sums.add((of_second ? second_a : a) + k, (of_second ? second_b : b) + k, !of_second || has_second);
    }
  }
}

}  // namespace spmm::kernels
