// How a warp adds products of blocks of A and B to sums, for each padded side P. Sides 4 and 8: some units at once, of
// one block of A and four of B each. Larger ones: one block of A times some blocks of a row of B.
// M: side of the C blocks if it is P, else 0 and known at run time; elements behind it are products of padding, which
// are zero and belong nowhere.
#pragma once

#include <type_traits>

#include "kernels/byte_mma.cuh"
#include "kernels/row_segments.cuh"
#include "kernels/rows/accumulators.cuh"
#include "kernels/rows/launch.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// One block of A and four successive blocks of B, some of which may not belong to the segment.
struct WorkUnit {
  static constexpr std::uint32_t kBlocks = kUnitBlocks;
  std::uint32_t b;  // first block of B
  std::uint32_t
      a_there;  // block of A, from the round's first one on; from bit 16 on, a bit for each block that belongs

  [[nodiscard]] __device__ std::uint32_t a() const { return a_there & 0xFFFFu; }
  [[nodiscard]] __device__ bool has(std::uint32_t block) const { return a_there >> (16 + block) & 1; }
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

/// What a warp needs for units of side P: kBatch at once, all of whose loads are in flight.
/// Layout: places: two words for each unit, see below.
template <std::uint32_t P, std::uint32_t M, bool Fits>
struct UnitProducts;

/// Side 4 on tensor cores, two units at a time, a half of K each. A column of a block of B is two words. Places: of two
/// units the first two blocks each, then the others.
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
struct UnitProducts<4, M, Fits> {
  static constexpr std::uint32_t kBatch = 8;
  static constexpr std::uint32_t kSteps = kBatch / 2;
  const Accumulators<M>& sums;
  std::uint32_t half = threadIdx.x % 4 / 2;  // of K
  std::uint32_t h = threadIdx.x % 32 / 16;
  bool has_a = threadIdx.x / 4 % 2 == threadIdx.x % 4 / 2;
  bool is_element;
  std::uint32_t base;
  const std::uint32_t* b_words;
  const std::uint32_t* a_words;

  __device__ UnitProducts(const std::uint16_t* a_blocks, const std::uint16_t* b_values, std::uint32_t m,
                          const Accumulators<M>& into)
      : sums(into) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t row = lane % 4;
    const std::uint32_t column = lane / 4 % 4;
    is_element = M != 0 || (row < m && column < m);
    base = sums.base(row * m + column);
    b_words = as_base(reinterpret_cast<const std::uint32_t*>(b_values) + h * 16 + column * 2 + lane % 2);
    a_words = as_base(reinterpret_cast<const std::uint32_t*>(a_blocks) + lane / 8 * 2 + lane % 2);
  }

  /// Threads: one whole warp.
  __device__ void add(const WorkUnit* units, const uint2* places) const {
    std::uint32_t a[kSteps];
    std::uint32_t top[kSteps];
    std::uint32_t bottom[kSteps];
#pragma unroll
    for (std::uint32_t u = 0; u < kSteps; ++u) {
      const WorkUnit unit = units[2 * u + half];
      const std::uint32_t* const from = b_words + std::uint64_t{unit.b} * 8;
      top[u] = __ldg(from);
      bottom[u] = __ldg(from + 8);
      a[u] = __ldg(a_words + std::uint64_t{unit.a()} * 8);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kSteps; ++u) {
      const WordSums products(top[u], bottom[u], WordFactors(a[u], has_a));
      const uint2 to = places[2 * u + h];  // of unit 0, of unit 1
      if (!is_element) continue;
      sums.template add_at<Fits>(__dp2a_lo(to.x, 4u, base),
                                 products.template sum<Fits>(0));  // four bytes for each word
      sums.template add_at<Fits>(__dp2a_lo(to.x, 4u << 8, base), products.template sum<Fits>(2));
      sums.template add_at<Fits>(__dp2a_lo(to.y, 4u, base), products.template sum<Fits>(1));
      sums.template add_at<Fits>(__dp2a_lo(to.y, 4u << 8, base), products.template sum<Fits>(3));
    }
  }
};

/// Side 8: two blocks of B at once. A column of a block of B is four words. Places: of a unit in a row.
/// Layout:
///
///   first operand, row c:          column c of the first block   K = its eight elements, two bytes each
///                  row 8 + c:      column c of the second block
///   second operand, column 2q:     row q of A
///                   column 2q + 1: row q + 4 of A
///
/// Work: lane -> column lane / 4, rows lane % 4 and lane % 4 + 4 of both blocks: 32 lanes add to 32 banks.
template <std::uint32_t M, bool Fits>
struct UnitProducts<8, M, Fits> {
  static constexpr std::uint32_t kBatch = 4;
  static constexpr std::uint32_t kAtOnce = 2;  // units
  static constexpr std::uint32_t kBlocks = WorkUnit::kBlocks;
  const Accumulators<M>& sums;
  bool are_elements[2];
  std::uint32_t four_rows_bytes;  // of sums
  std::uint32_t base;
  const std::uint32_t* b_words;
  const std::uint32_t* a_words;

  __device__ UnitProducts(const std::uint16_t* a_blocks, const std::uint16_t* b_values, std::uint32_t m,
                          const Accumulators<M>& into)
      : sums(into) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t row = lane % 4;
    const std::uint32_t column = lane / 4;
    are_elements[0] = M != 0 || (row < m && column < m);
    are_elements[1] = M != 0 || (row + 4 < m && column < m);
    four_rows_bytes = 16 * m;
    base = sums.base(row * m + column);
    b_words = as_base(reinterpret_cast<const std::uint32_t*>(b_values) + lane);
    a_words = as_base(reinterpret_cast<const std::uint32_t*>(a_blocks) + (lane / 8 + lane / 4 % 2 * 4) * 4 + lane % 4);
  }

  /// Threads: one whole warp.
  __device__ void add(const WorkUnit* units, const uint2* places) const {
#pragma unroll
    for (std::uint32_t x = 0; x < kBatch; x += kAtOnce) {
      std::uint32_t a[kAtOnce];
      std::uint32_t words[kAtOnce][kBlocks];
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const WorkUnit unit = units[x + u];
        const std::uint32_t* const from = b_words + std::uint64_t{unit.b} * 32;
        a[u] = __ldg(a_words + std::uint64_t{unit.a()} * 32);
#pragma unroll
        for (std::uint32_t w = 0; w < kBlocks; ++w) words[u][w] = __ldg(from + w * 32);
      }
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const WordFactors factors(a[u]);
        const uint2 to = places[x + u];
        add_two(to.x, WordSums(words[u][0], words[u][1], factors));
        add_two(to.y, WordSums(words[u][2], words[u][3], factors));
      }
    }
  }

  /// Adds the products of a block of A and a B segment. first_column: of C block 0.
  /// Threads: one whole warp.
  __device__ void add(std::uint32_t a_block, BSegment segment, const std::uint32_t* b_columns,
                      std::uint32_t first_column) const {
    constexpr std::uint32_t kLoads = 4;  // in flight: enough to hide a load behind the products before it
    const std::uint32_t bytes = sums.c_block_bytes();
    const std::uint32_t from = base - first_column * bytes;  // may wrap around; columns are added again
    const WordFactors factors(__ldg(a_words + std::uint64_t{a_block} * 32));
    const std::uint32_t* next_column = b_columns + segment.first;
    const std::uint32_t* next = b_words + std::uint64_t{segment.first} * 32;
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
#pragma unroll
      for (std::uint32_t u = 0; u < kLoads; u += 2) {
        const WordSums products(words[u], words[u + 1], factors);
        add_block<0>(from + columns[u] * bytes, products);
        add_block<2>(from + columns[u + 1] * bytes, products);
      }
    }
    if (left == 0) return;
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) {
      words[u] = 0;
      if (u >= left) continue;
      columns[u] = __ldg(next_column + u);
      words[u] = __ldg(next + u * 32);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; u += 2) {
      if (u >= left) break;
      const WordSums products(words[u], words[u + 1], factors);
      add_block<0>(from + columns[u] * bytes, products);
      if (u + 1 < left) add_block<2>(from + columns[u + 1] * bytes, products);
    }
  }

 private:
  /// Adds the products of a block. First: of its sums.
  template <std::uint32_t First>
  __device__ void add_block(std::uint32_t at, const WordSums& products) const {
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) {
      if (are_elements[e]) sums.template add_at<Fits>(at + e * four_rows_bytes, products.template sum<Fits>(First + e));
    }
  }
  /// Adds the products of two blocks, whose places are the halves of `two`, in words of four bytes.
  __device__ void add_two(std::uint32_t two, const WordSums& products) const {
    add_block<0>(__dp2a_lo(two, 4u, base), products);
    add_block<2>(__dp2a_lo(two, 4u << 8, base), products);
  }
};

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
/// ahead and used for kRows pieces. slot_of(column): number of a C block.
/// Threads: one whole warp.
template <std::uint32_t P, bool Fits, class SlotOf>
__device__ void add_wide(const std::uint16_t* a_block, const OperandView& b, BSegment segment, std::uint32_t m,
                         const SlotOf& slot_of, const Accumulators<0>& sums) {
  constexpr std::uint32_t kEights = P / 8;
  constexpr std::uint32_t kRows = kEights % 2 == 0 ? 2 : 1;
  const std::uint32_t from = Sums8::row() * P + threadIdx.x % 4 * 4;
  const std::uint32_t swizzle = m == P ? row_swizzle<P>(Sums8::row()) : 0;  // the same for every eighth row
  std::uint32_t slot = 0;                                                   // of a block for each lane
#pragma unroll 1
  for (std::uint32_t first_row = 0; first_row < P; first_row += kRows * 8) {
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
#pragma unroll 1
    for (std::uint32_t q = segment.first; q < segment.end; ++q) {
      const std::uint32_t number = (q - segment.first) % 32;
      // A lane each; once for all rows of A if there are no more blocks than lanes.
      if (number == 0 && (first_row == 0 || segment.end - segment.first > 32)) {
        if (threadIdx.x % 32 < segment.end - q) slot = slot_of(__ldg(b.index.columns + q + threadIdx.x % 32));
        __syncwarp();  // searches differ in length
      }
      const std::uint32_t c_block = __shfl_sync(~0u, slot, number);
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
            sums.template add_at<Fits>(base + p * 4, value);
          }
        }
      }
    }
  }
}

}  // namespace spmm::kernels
