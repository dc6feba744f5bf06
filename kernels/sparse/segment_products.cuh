// How a warp adds one block of A times a B segment to the sums of a column chunk, for each padded side P.
// M: side of the C blocks where it is P, else 0 and known at run time; elements behind it are products of padding,
// which are zero and belong nowhere.
#pragma once

#include <type_traits>

#include "kernels/sparse/accumulators.cuh"
#include "kernels/sparse/byte_mma.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// B segment: the blocks [first, end) of a B row that fall into a column chunk.
struct BSegment {
  std::uint32_t first;
  std::uint32_t end;
};

/// Sum of the products of bytes, weighted: high * 2^16 + middle * 2^8 + low. Fits: the result fits 32 bits.
template <bool Fits>
__device__ std::uint64_t combine(std::uint32_t high, std::uint32_t middle, std::uint32_t low) {
  using Sum = std::conditional_t<Fits, std::uint32_t, std::uint64_t>;
  return (Sum{high} << 16) + (Sum{middle} << 8) + low;
}

/// Selectors of __byte_perm: the high or the low bytes of four elements in two words.
constexpr std::uint32_t kHighBytes = 0x7531;
constexpr std::uint32_t kLowBytes = 0x6420;

/// P = 4 on tensor cores: eight blocks of B with three products of 16 x 8 x 16 bytes (byte_mma.cuh).
/// Layout: half h of the eight blocks, h = 0, 1; K 8 to 15 is multiplied by zeros.
///
///   cross product of half h          K 0-3         4-7    | low product, once   K 0-3       4-7
///   first operand, row 4b + c:       high(B)       low(B) |                     low(B_b)    low(B_b+4)
///     column c of block 4h + b                            |   column c of blocks b and b + 4
///   second operand, column 2r:       low(A)        high(A)|                     low(A)      0
///     row r of A    column 2r + 1:   high(A)       0      |                     0           low(A)
///   result, column 2r:               middle of (r, c)     |                     low of (r, c), block b
///           column 2r + 1:           high of (r, c)       |                     low of (r, c), block b + 4
///
/// Work: lane -> row r = lane % 4, column c = lane / 4 % 4 of the blocks lane / 16 + {0, 2, 4, 6} of the eight.
template <std::uint32_t M, bool Fits>
struct Products4 {
  static constexpr std::uint32_t kLoads = 4;  // per lane, of two blocks each per warp

  Accumulators<M> sums;
  std::uint32_t first_column;  // of the chunk
  std::uint32_t row;           // of A's block, and of K in units of four
  std::uint32_t selector;      // of this lane's bytes of B in cross products
  std::uint32_t a_cross;
  std::uint32_t a_low;
  bool is_element;  // of the C block
  std::uint32_t position;
  std::uint32_t base;  // may wrap around; columns are added again

  __device__ Products4(const std::uint16_t* a_block, std::uint32_t first, std::uint32_t m, const Accumulators<M>& into)
      : sums(into), first_column(first), row(threadIdx.x % 4), selector(row == 0 ? kHighBytes : kLowBytes) {
    const std::uint32_t group = threadIdx.x % 32 / 4;
    const BytePair a = split_bytes(__ldg(reinterpret_cast<const uint2*>(a_block) + group / 2));
    const bool even = group % 2 == 0;
    a_cross = row == 0 ? (even ? a.low : a.high) : row == 1 && even ? a.high : 0;
    a_low = row == (even ? 0 : 1) ? a.low : 0;
    is_element = M != 0 || (row < m && group % 4 < m);
    position = row * m + group % 4;
    base = sums.base(position) - first_column * sums.c_block_bytes();
  }

  /// Shapes: columns, terms [kLoads]: of blocks lane / 16 + {0, 2, 4, 6}. has_second: more than four blocks are there.
  __device__ void add(const std::uint32_t* columns, const uint2* terms, bool has_second) const {
    std::uint32_t bytes[kLoads];
    std::uint32_t low[2];
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) bytes[u] = __byte_perm(terms[u].x, terms[u].y, selector);
#pragma unroll
    for (std::uint32_t u = 0; u < 2; ++u) {
      low[u] = row == 0 ? __byte_perm(terms[u].x, terms[u].y, kLowBytes) : bytes[u + 2];
    }
    std::uint32_t lows[4] = {};  // of the first block, of the third; of the second, of the fourth
    mma_u8_16x8x16(lows, low[0], low[1], a_low);
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (half == 1 && !has_second) break;
      std::uint32_t cross[4] = {};  // middle and high of one block, of the other
      mma_u8_16x8x16(cross, bytes[2 * half], bytes[2 * half + 1], a_cross);
#pragma unroll
      for (std::uint32_t h = 0; h < 2; ++h) {
        const std::uint32_t column = columns[2 * half + h];
        if (!is_element) continue;
        sums.template add_at<Fits>(base + column * sums.c_block_bytes(), column - first_column, position,
                                   combine<Fits>(cross[2 * h + 1], cross[2 * h], lows[2 * h + half]));
      }
    }
  }
};

/// P = 4: one block of A times a B segment.
/// Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void add_segment_4(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                              std::uint32_t first_column, std::uint32_t m, const Accumulators<M>& sums) {
  constexpr std::uint32_t kLoads = Products4<M, Fits>::kLoads;
  const Products4<M, Fits> products(a_block, first_column, m, sums);
  const std::uint32_t group = threadIdx.x % 32 / 4;
  const std::uint32_t q = segment.first + group / 4;
  const std::uint32_t* next_column = b.index.columns + q;
  const uint2* values = reinterpret_cast<const uint2*>(b.values) + std::uint64_t{q} * 4 + group % 4;
  std::uint32_t left = segment.end - segment.first;
  std::uint32_t columns[kLoads];
  uint2 terms[kLoads];
  for (; left >= 2 * kLoads; left -= 2 * kLoads, next_column += 2 * kLoads, values += 8 * kLoads) {
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) {
      columns[u] = __ldg(next_column + 2 * u);
      terms[u] = __ldg(values + 8 * u);
    }
    products.add(columns, terms, true);
  }
  if (left == 0) return;
#pragma unroll
  for (std::uint32_t u = 0; u < kLoads; ++u) {  // behind the end: zeros are added to the first block of the rest
    const bool is_there = 2 * u + group / 4 < left;
    columns[u] = __ldg(is_there ? next_column + 2 * u : next_column - group / 4);
    terms[u] = is_there ? __ldg(values + 8 * u) : uint2{0, 0};
  }
  products.add(columns, terms, left > 4);
}

/// P = 8 on tensor cores: two blocks of B with three products of 16 x 8 x 16 bytes (byte_mma.cuh).
/// Layout: B0, B1 = the two blocks.
///
///   cross product of one block       K 0-7        8-15    | low product, once   K 0-7     8-15
///   first operand, rows 0-7:         high(A)      low(A)  |                     low(A)    0
///     rows of A    rows 8-15:        0            high(A) |                     0         low(A)
///   second operand, columns of B:    low(B)       high(B) |                     low(B0)   low(B1)
///   result, rows 0-7:                middle               |                     low of B0
///           rows 8-15:               high                 |                     low of B1
///
/// Column 2q of the product is column q of B's block, 2q + 1 is q + 4: a lane gets two that lie 4 apart.
/// Work: lane -> row lane / 4, columns q = lane % 4 and q + 4.
template <std::uint32_t M, bool Fits>
struct Products8 {
  Accumulators<M> sums;
  std::uint32_t first_column;  // of the chunk
  bool second;                 // half of K
  std::uint32_t selector;      // of this lane's bytes of B in cross products
  std::uint32_t a_middle;
  std::uint32_t a_high;
  std::uint32_t a_low[2];
  bool are_elements[2];  // of the C block
  std::uint32_t positions[2];
  std::uint32_t bases[2];  // may wrap around; columns are added again

  __device__ Products8(const std::uint16_t* a_block, std::uint32_t first, std::uint32_t m, const Accumulators<M>& into)
      : sums(into), first_column(first), second(threadIdx.x % 4 >= 2), selector(second ? kHighBytes : kLowBytes) {
    const std::uint32_t group = threadIdx.x % 32 / 4;
    const std::uint32_t within = threadIdx.x % 4;
    const BytePair a = split_bytes(__ldg(reinterpret_cast<const uint2*>(a_block + group * 8 + within % 2 * 4)));
    a_middle = second ? a.low : a.high;
    a_high = second ? a.high : 0;
    a_low[0] = second ? 0 : a.low;
    a_low[1] = second ? a.low : 0;
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) {
      are_elements[e] = M != 0 || (group < m && within + 4 * e < m);
      positions[e] = swizzled<M>(group * m + within + 4 * e);
      bases[e] = sums.base(positions[e]) - first_column * sums.c_block_bytes();
    }
  }

  /// Shapes: columns, terms [2].
  __device__ void add(const std::uint32_t* columns, const uint2* terms, bool has_second) const {
    const std::uint32_t bytes[2] = {__byte_perm(terms[0].x, terms[0].y, selector),
                                    __byte_perm(terms[1].x, terms[1].y, selector)};
    const std::uint32_t low = second ? __byte_perm(terms[1].x, terms[1].y, kLowBytes) : bytes[0];
    std::uint32_t lows[4] = {};  // of the first block, of the second
    mma_u8_16x8x16(lows, a_low[0], a_low[1], low);
    std::uint32_t cross[4] = {};  // middle, high
    mma_u8_16x8x16(cross, a_middle, a_high, bytes[0]);
    add_block(columns[0], cross, lows);
    if (!has_second) return;
    std::uint32_t next[4] = {};
    mma_u8_16x8x16(next, a_middle, a_high, bytes[1]);
    add_block(columns[1], next, lows + 2);
  }

 private:
  __device__ void add_block(std::uint32_t column, const std::uint32_t* cross, const std::uint32_t* low) const {
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) {
      if (!are_elements[e]) continue;
      sums.template add_at<Fits>(bases[e] + column * sums.c_block_bytes(), column - first_column, positions[e],
                                 combine<Fits>(cross[2 + e], cross[e], low[e]));
    }
  }
};

/// P = 8: one block of A times a B segment.
/// Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void add_segment_8(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                              std::uint32_t first_column, std::uint32_t m, const Accumulators<M>& sums) {
  constexpr std::uint32_t kLoads = 4;  // in flight: enough to hide a load behind the products before it
  const Products8<M, Fits> products(a_block, first_column, m, sums);
  const std::uint32_t group = threadIdx.x % 32 / 4;
  const std::uint32_t from = (group / 2 + group % 2 * 4) * 8 + threadIdx.x % 2 * 4;
  const std::uint32_t* next_column = b.index.columns + segment.first;
  const std::uint16_t* values = b.values + std::uint64_t{segment.first} * 64 + from;
  std::uint32_t left = segment.end - segment.first;
  std::uint32_t columns[kLoads];
  uint2 terms[kLoads];
#pragma unroll(Fits ? 2 : 1)  // checked sums are many instructions already
  for (; left >= kLoads; left -= kLoads, next_column += kLoads, values += kLoads * 64) {
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) {
      columns[u] = __ldg(next_column + u);
      terms[u] = __ldg(reinterpret_cast<const uint2*>(values + u * 64));
    }
    products.add(columns, terms, true);
    products.add(columns + 2, terms + 2, true);
  }
  if (left == 0) return;
#pragma unroll
  for (std::uint32_t u = 0; u < kLoads; ++u) {
    terms[u] = uint2{0, 0};
    if (u >= left) continue;
    columns[u] = __ldg(next_column + u);
    terms[u] = __ldg(reinterpret_cast<const uint2*>(values + u * 64));
  }
  products.add(columns, terms, left > 1);
  if (left > 2) products.add(columns + 2, terms + 2, false);
}

/// A lane's part of eight rows of A or columns of B of side P, one after the other, in memory.
template <std::uint32_t P>
struct EightTerms {
  static constexpr std::uint32_t kSteps = (P + 15) / 16;  // of 16 terms; of the last one, half may lie behind the block
  uint2 terms[kSteps];

  /// Shapes: from = the lane's first four terms.
  __device__ void load(const std::uint16_t* from) {
#pragma unroll
    for (std::uint32_t s = 0; s < kSteps; ++s) {
      const bool there = P % 16 == 0 || s + 1 < kSteps || threadIdx.x % 4 < 2;
      terms[s] = there ? __ldg(reinterpret_cast<const uint2*>(from + s * 16)) : uint2{0, 0};
    }
  }
};

/// P = 16 and more: one block of A times a B segment, in pieces of 8 x 8 (Sums8), the columns of B loaded one piece
/// ahead and used for kRows pieces.
/// Threads: one whole warp.
template <std::uint32_t P, bool Fits>
__device__ void add_segment_wide(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                                 std::uint32_t first_column, std::uint32_t m, const Accumulators<0>& sums) {
  constexpr std::uint32_t kEights = P / 8;
  constexpr std::uint32_t kRows = kEights % 2 == 0 ? 2 : 1;
  const std::uint32_t from = Sums8::row() * P + threadIdx.x % 4 * 4;
  const std::uint32_t swizzle = P % 32 == 0 && m == P ? row_swizzle(Sums8::row()) : 0;  // the same for every eighth row
  for (std::uint32_t first_row = 0; first_row < P && segment.first < segment.end; first_row += kRows * 8) {
    EightTerms<P> rows[kRows];
    std::uint32_t end_column[kRows];  // 0 where the row is padding
    std::uint32_t positions[kRows];   // of the row's first element
#pragma unroll
    for (std::uint32_t r = 0; r < kRows; ++r) {
      rows[r].load(a_block + (first_row + r * 8) * P + from);
      end_column[r] = first_row + r * 8 + Sums8::row() < m ? m : 0;
      positions[r] = (first_row + r * 8 + Sums8::row()) * m;
    }
    const std::uint16_t* next = b.values + std::uint64_t{segment.first} * P * P + from;
    EightTerms<P> ahead;
    ahead.load(next);
    for (std::uint32_t q = segment.first; q < segment.end; ++q) {
      const std::uint32_t c_block = __ldg(b.index.columns + q) - first_column;
      const std::uint32_t base = sums.base(0) + c_block * sums.c_block_bytes();
      for (std::uint32_t column = 0; column < P; column += 8) {
        const EightTerms<P> columns = ahead;
        next += 8 * P;
        if (column + 8 < P || q + 1 < segment.end) ahead.load(next);
        __syncwarp();  // mma.sync needs all lanes
        Sums8 products[kRows];
#pragma unroll
        for (std::uint32_t s = 0; s < EightTerms<P>::kSteps; ++s) {
          const BytePair of_b = split_bytes(columns.terms[s]);
#pragma unroll
          for (std::uint32_t r = 0; r < kRows; ++r) products[r].add(split_bytes(rows[r].terms[s]), of_b);
        }
#pragma unroll
        for (std::uint32_t r = 0; r < kRows; ++r) {
#pragma unroll
          for (std::uint32_t e = 0; e < 2; ++e) {
            const std::uint32_t own = column + Sums8::column() + e;
            if (own >= end_column[r]) continue;
            const std::uint32_t p = positions[r] + (own ^ swizzle);
            const std::uint64_t value = combine<Fits>(products[r].high[e], products[r].high[2 + e] + products[r].low[e],
                                                      products[r].low[2 + e]);
            sums.template add_at<Fits>(base + p * 4, c_block, p, value);
          }
        }
      }
    }
  }
}

/// Whichever of these is made for P.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void add_segment(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                            std::uint32_t first_column, std::uint32_t m, const Accumulators<M>& sums) {
  if constexpr (P == 4) {
    add_segment_4<M, Fits>(a_block, b, segment, first_column, m, sums);
  } else if constexpr (P == 8) {
    add_segment_8<M, Fits>(a_block, b, segment, first_column, m, sums);
  } else {
    add_segment_wide<P, Fits>(a_block, b, segment, first_column, m, sums);
  }
}

}  // namespace spmm::kernels
