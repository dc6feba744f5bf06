// How a warp adds one block of A times a B segment to the sums of a column chunk, for each padded side P.
// M: side of the C blocks if it is P, else 0 and known at run time; elements behind it are products of padding,
// which are zero and belong nowhere.
#pragma once

#include <type_traits>

#include "kernels/byte_mma.cuh"
#include "kernels/gustavson/accumulators.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// B segment: the blocks [first, end) of a B row that fall into a column chunk.
struct BSegment {
  std::uint32_t first;
  std::uint32_t end;
};

/// A pointer that the compiler adds offsets to as it is, with one instruction each.
__device__ inline const std::uint32_t* as_base(const std::uint32_t* words) {
  asm volatile("" : "+l"(words));
  return words;
}

/// Sum of the products of bytes, weighted: high * 2^16 + middle * 2^8 + low. Fits: the result fits 32 bits.
template <bool Fits>
__device__ std::uint64_t combine(std::uint32_t high, std::uint32_t middle, std::uint32_t low) {
  using Sum = std::conditional_t<Fits, std::uint32_t, std::uint64_t>;
  return (Sum{high} << 16) + (Sum{middle} << 8) + low;
}

/// A word of A, two elements, as what a word of B is multiplied with byte by byte. B's words stay as they are: low and
/// high byte of one element, then of the next.
struct WordFactors {
  std::uint32_t middle;  // high bytes of A meet low ones of B, and the other way round
  std::uint32_t high;
  std::uint32_t low;

  /// is_there: false for zeros instead.
  __device__ explicit WordFactors(std::uint32_t word, bool is_there = true) {
    middle = __byte_perm(word, 0, is_there ? 0x2301 : 0x4444);
    high = word & (is_there ? 0xFF00'FF00 : 0);
    low = word & (is_there ? 0x00FF'00FF : 0);
  }
};

/// Sums of the products of bytes of four words of B with those of A, three products of 16 x 8 x 16 bytes
/// (byte_mma.cuh) that share their first operand.
struct WordSums {
  std::uint32_t middle[4] = {};
  std::uint32_t high[4] = {};
  std::uint32_t low[4] = {};

  __device__ WordSums(std::uint32_t top, std::uint32_t bottom, const WordFactors& a) {
    mma_u8_16x8x16(middle, top, bottom, a.middle);
    mma_u8_16x8x16(high, top, bottom, a.high);
    mma_u8_16x8x16(low, top, bottom, a.low);
  }
  template <bool Fits>
  [[nodiscard]] __device__ std::uint64_t sum(std::uint32_t x) const {
    return combine<Fits>(high[x], middle[x], low[x]);
  }
};

/// P = 4 on tensor cores: eight blocks of B at once. A column of a block of B is two words.
/// Layout: h = 0, 1; s = 0, 1.
///
///   first operand           K 0-7                        8-15
///   row 4h + c              column c of block h          column c of block h + 4
///   row 8 + 4h + c          column c of block h + 2      column c of block h + 6
///   second operand, column 2r + s: row r of A in half s of K, zeros in the other
///   result, column 2r + s:  element (r, c) of a block of half s
///
/// Work: lane -> row r = lane % 4, column c = lane / 4 % 4 of the blocks lane / 16 + {0, 2, 4, 6} of the eight.
template <std::uint32_t M, bool Fits>
struct Products4 {
  static constexpr std::uint32_t kBlocks = 8;   // at once
  static constexpr std::uint32_t kColumns = 4;  // of them that a lane needs
  static constexpr std::uint32_t kWords = 2;    // that a lane loads

  Accumulators<M> sums;
  std::uint32_t first_column;  // of the chunk
  WordFactors a;
  bool is_element;  // of the C block
  std::uint32_t position;
  std::uint32_t base;  // may wrap around; columns are added again

  __device__ Products4(const std::uint16_t* a_block, std::uint32_t first, std::uint32_t m, const Accumulators<M>& into)
      : sums(into), first_column(first), a(word_of_a(a_block)) {
    const std::uint32_t row = threadIdx.x % 4;
    const std::uint32_t column = threadIdx.x / 4 % 4;
    is_element = M != 0 || (row < m && column < m);
    position = row * m + column;
    base = sums.base(position) - first_column * sums.c_block_bytes();
  }

  /// Block number u of the four whose elements a lane adds, and block number w of the two that it loads a word of.
  __device__ static std::uint32_t block(std::uint32_t u) { return threadIdx.x % 32 / 16 + 2 * u; }
  __device__ static std::uint32_t loaded_block(std::uint32_t w) { return block(threadIdx.x % 4 / 2 * 2 + w); }
  /// Where a lane's first word lies behind the first block; the next one lies kWordStride words behind it.
  __device__ static std::uint32_t first_word() {
    return loaded_block(0) * 8 + threadIdx.x / 4 % 4 * 2 + threadIdx.x % 2;
  }
  static constexpr std::uint32_t kWordStride = 16;

  /// Shapes: columns [kColumns]; words [kWords]. has_second: more than four blocks are there.
  __device__ void add(const std::uint32_t* columns, const std::uint32_t* words, bool has_second) const {
    const WordSums products(words[0], words[1], a);
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (half == 1 && !has_second) break;
#pragma unroll
      for (std::uint32_t h = 0; h < 2; ++h) {
        const std::uint32_t column = columns[2 * half + h];
        if (!is_element) continue;
        sums.template add_at<Fits>(base + column * sums.c_block_bytes(), column - first_column, position,
                                   products.template sum<Fits>(2 * h + half));
      }
    }
  }

 private:
  __device__ static std::uint32_t word_of_a(const std::uint16_t* a_block) {
    const std::uint32_t group = threadIdx.x % 32 / 4;
    const bool is_there = threadIdx.x % 4 / 2 == group % 2;  // in this half of K
    const auto* const words = reinterpret_cast<const std::uint32_t*>(a_block);
    return is_there ? __ldg(words + group / 2 * 2 + threadIdx.x % 2) : 0;
  }
};

/// P = 4: one block of A times a B segment.
/// Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void add_segment_4(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                              std::uint32_t first_column, std::uint32_t m, const Accumulators<M>& sums) {
  using Products = Products4<M, Fits>;
  constexpr std::uint32_t kBlocks = Products::kBlocks;
  const Products products(a_block, first_column, m, sums);
  const std::uint32_t* next_column = b.index.columns + segment.first;
  const std::uint32_t* next =
      reinterpret_cast<const std::uint32_t*>(b.values) + std::uint64_t{segment.first} * 8 + Products::first_word();
  std::uint32_t left = segment.end - segment.first;
  std::uint32_t columns[Products::kColumns];
  std::uint32_t words[Products::kWords];
  for (; left >= kBlocks; left -= kBlocks, next_column += kBlocks, next += kBlocks * 8) {
#pragma unroll
    for (std::uint32_t u = 0; u < Products::kColumns; ++u) columns[u] = __ldg(next_column + Products::block(u));
#pragma unroll
    for (std::uint32_t w = 0; w < Products::kWords; ++w) words[w] = __ldg(next + w * Products::kWordStride);
    products.add(columns, words, true);
  }
  if (left == 0) return;
#pragma unroll
  for (std::uint32_t u = 0; u < Products::kColumns; ++u) {  // behind the end: zeros are added to the last block
    columns[u] = __ldg(next_column + min(Products::block(u), left - 1));
  }
#pragma unroll
  for (std::uint32_t w = 0; w < Products::kWords; ++w) {
    words[w] = Products::loaded_block(w) < left ? __ldg(next + w * Products::kWordStride) : 0;
  }
  products.add(columns, words, left > 4);
}

/// P = 8 on tensor cores: two blocks of B at once. A column of a block of B is four words.
/// Layout:
///
///   first operand, row c:          column c of the first block   K = its eight elements, two bytes each
///                  row 8 + c:      column c of the second block
///   second operand, column 2q:     row q of A
///                   column 2q + 1: row q + 4 of A
///
/// Work: lane -> column lane / 4, rows lane % 4 and lane % 4 + 4 of both blocks: 32 lanes add to 32 banks.
template <std::uint32_t M, bool Fits>
struct Products8 {
  Accumulators<M> sums;
  std::uint32_t first_column;  // of the chunk
  WordFactors a;
  bool are_elements[2];  // of the C block
  std::uint32_t position;
  std::uint32_t four_rows;  // elements
  std::uint32_t base;       // may wrap around; columns are added again

  __device__ Products8(const std::uint16_t* a_block, std::uint32_t first, std::uint32_t m, const Accumulators<M>& into)
      : sums(into), first_column(first), a(word_of_a(a_block)) {
    const std::uint32_t row = threadIdx.x % 4;
    const std::uint32_t column = threadIdx.x % 32 / 4;
    are_elements[0] = M != 0 || (row < m && column < m);
    are_elements[1] = M != 0 || (row + 4 < m && column < m);
    position = row * m + column;
    four_rows = 4 * (M != 0 ? M : m);
    base = sums.base(position) - first_column * sums.c_block_bytes();
  }

  /// Where a lane's word of a block lies in it.
  __device__ static std::uint32_t first_word() { return threadIdx.x % 32 / 4 * 4 + threadIdx.x % 4; }

  /// Shapes: columns, words [2].
  __device__ void add(const std::uint32_t* columns, const std::uint32_t* words, bool has_second) const {
    const WordSums products(words[0], words[1], a);
    add_block(columns[0], products, 0);
    if (has_second) add_block(columns[1], products, 2);
  }

 private:
  __device__ static std::uint32_t word_of_a(const std::uint16_t* a_block) {
    const std::uint32_t group = threadIdx.x % 32 / 4;
    const std::uint32_t row = group / 2 + group % 2 * 4;
    return __ldg(reinterpret_cast<const std::uint32_t*>(a_block) + row * 4 + threadIdx.x % 4);
  }

  __device__ void add_block(std::uint32_t column, const WordSums& products, std::uint32_t first) const {
    const std::uint32_t at = base + column * sums.c_block_bytes();
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) {
      if (!are_elements[e]) continue;
      sums.template add_at<Fits>(at + e * 4 * four_rows, column - first_column, position + e * four_rows,
                                 products.template sum<Fits>(first + e));
    }
  }
};

/// P = 8: one block of A times a B segment.
/// Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void add_segment_8(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                              std::uint32_t first_column, std::uint32_t m, const Accumulators<M>& sums) {
  constexpr std::uint32_t kLoads = 4;  // in flight: enough to hide a load behind the products before it
  using Products = Products8<M, Fits>;
  const Products products(a_block, first_column, m, sums);
  const std::uint32_t* next_column = b.index.columns + segment.first;
  const std::uint32_t* next =
      reinterpret_cast<const std::uint32_t*>(b.values) + std::uint64_t{segment.first} * 32 + Products::first_word();
  std::uint32_t left = segment.end - segment.first;
  std::uint32_t columns[kLoads];
  std::uint32_t words[kLoads];
#pragma unroll(Fits ? 2 : 1)  // checked sums are many instructions already
  for (; left >= kLoads; left -= kLoads, next_column += kLoads, next += kLoads * 32) {
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) {
      columns[u] = __ldg(next_column + u);
      words[u] = __ldg(next + u * 32);
    }
    products.add(columns, words, true);
    products.add(columns + 2, words + 2, true);
  }
  if (left == 0) return;
#pragma unroll
  for (std::uint32_t u = 0; u < kLoads; ++u) {
    words[u] = 0;
    if (u >= left) continue;
    columns[u] = __ldg(next_column + u);
    words[u] = __ldg(next + u * 32);
  }
  products.add(columns, words, left > 1);
  if (left > 2) products.add(columns + 2, words + 2, false);
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
    std::uint32_t end_column[kRows];  // 0 if the row is padding
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
