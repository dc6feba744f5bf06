// How a warp adds one block of A times a run of blocks of B to sums in shared memory, for each block side.
#pragma once

#include <type_traits>

#include "kernels/grid.cuh"
#include "kernels/sparse/byte_mma.cuh"
#include "kernels/sparse/row_dot.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// 32-bit words of one C block's sums: an element each, and a bit each.
__host__ __device__ constexpr std::uint32_t c_block_words(std::uint32_t elements) {
  return elements + (elements + 31) / 32;
}

/// Where element e of a block lies among its sums: for m = 8 the two halves of the lower rows are exchanged, so that
/// the lanes of a warp, which hold columns q and q + 4 of rows 0 to 7, meet different banks.
template <std::uint32_t M>
__device__ constexpr std::uint32_t swizzled(std::uint32_t e) {
  return M == 8 ? e ^ (e / 32 * 4) : e;
}

/// Sums of a stretch of blocks. An element is a 32-bit sum and a sticky bit: once a carry leaves the sum, it is
/// saturated.
template <std::uint32_t M>
struct Accumulators {
  std::uint32_t* sums;       // [num_c_blocks, elements], shared
  std::uint32_t* saturated;  // [num_c_blocks, bit words], shared, a bit per element
  std::uint32_t run_time_elements;
  std::uint32_t address;  // of sums in the shared window: kept, where the compiler would compute it for every access

  __device__ Accumulators(std::uint32_t* shared, std::uint32_t num_c_blocks, std::uint32_t num_elements)
      : sums(shared), saturated(shared + num_c_blocks * num_elements), run_time_elements(num_elements) {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(at));
  }

  [[nodiscard]] __device__ std::uint32_t elements() const { return M != 0 ? M * M : run_time_elements; }

  /// Address of the element at place p of C block 0, and from there that of any other.
  [[nodiscard]] __device__ std::uint32_t base(std::uint32_t p) const { return address + p * 4; }

  /// Adds to the element at place p of a C block. Fits: no sum of this block row can leave 32 bits.
  template <bool Fits>
  __device__ void add(std::uint32_t c_block, std::uint32_t p, std::uint64_t value) const {
    add_at<Fits>(address + (c_block * elements() + p) * 4, c_block, p, value);
  }
  /// The same where the address is known already.
  template <bool Fits>
  __device__ void add_at(std::uint32_t at, std::uint32_t c_block, std::uint32_t p, std::uint64_t value) const {
    const auto low = static_cast<std::uint32_t>(value);
    if constexpr (Fits) {  // several warps may meet in one block
      asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(at), "r"(low));
    } else if (value > kMaxVal) {
      mark_saturated(c_block, p);
    } else {
      std::uint32_t before = 0;
      asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(at), "r"(low));
      if (before + low < before) mark_saturated(c_block, p);
    }
  }
  /// Element e of a C block. Fits: as above, no element is marked.
  template <bool Fits>
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t c_block, std::uint32_t e) const {
    const std::uint32_t p = swizzled<M>(e);
    if (!Fits && is_saturated(c_block, p)) return kMaxVal;
    return sums[c_block * elements() + p];
  }
  /// Elements 2x and 2x + 1 of a C block.
  template <bool Fits>
  [[nodiscard]] __device__ uint2 pair(std::uint32_t c_block, std::uint32_t x) const {
    const std::uint32_t p = swizzled<M>(2 * x);
    uint2 two = *reinterpret_cast<const uint2*>(sums + c_block * elements() + p);
    if constexpr (!Fits) {
      const std::uint32_t marks = *bits(c_block, p) >> p % 32;
      if (marks & 1) two.x = kMaxVal;
      if (marks & 2) two.y = kMaxVal;
    }
    return two;
  }
  /// Whether any of the elements at places 4x to 4x + 3 of a C block is not zero.
  template <bool Fits>
  [[nodiscard]] __device__ bool any_of_four(std::uint32_t c_block, std::uint32_t x) const {
    const uint4 four = *reinterpret_cast<const uint4*>(sums + c_block * elements() + 4 * x);
    return (four.x | four.y | four.z | four.w) != 0 || (!Fits && (*bits(c_block, 4 * x) >> 4 * x % 32 & 15) != 0);
  }

 private:
  [[nodiscard]] __device__ std::uint32_t* bits(std::uint32_t c_block, std::uint32_t p) const {
    return saturated + c_block * ((elements() + 31) / 32) + p / 32;
  }
  [[nodiscard]] __device__ bool is_saturated(std::uint32_t c_block, std::uint32_t p) const {
    return *bits(c_block, p) >> p % 32 & 1;
  }
  __device__ void mark_saturated(std::uint32_t c_block, std::uint32_t p) const {
    std::uint32_t* const word = bits(c_block, p);
    const std::uint32_t bit = 1u << p % 32;
    if ((*word & bit) == 0) atomicOr(word, bit);  // bits only get set: a stale read costs one atomic
  }
};

/// Blocks of B that one block of A meets within the stretch: [first, end).
struct BSegment {
  std::uint32_t first;
  std::uint32_t end;
};

/// First block of B's line `slot` in columns from `column` on.
__device__ inline std::uint32_t split_offset(const CompressedView& b, std::uint32_t b_row, std::uint32_t column) {
  return static_cast<std::uint32_t>(lower_bound(b.columns, b.offsets[b_row], b.offsets[b_row + 1], column));
}

/// Sum of the four products of bytes, weighted. Fits: the result fits 32 bits.
template <bool Fits>
__device__ std::uint64_t combine(std::uint32_t high, std::uint32_t middle, std::uint32_t low) {
  using Sum = std::conditional_t<Fits, std::uint32_t, std::uint64_t>;
  return (Sum{high} << 16) + (Sum{middle} << 8) + low;
}

/// Selectors of __byte_perm: the high or the low bytes of four elements in two words.
constexpr std::uint32_t kHighBytes = 0x7531;
constexpr std::uint32_t kLowBytes = 0x6420;

/// m = 4 on tensor cores. 16 rows are the columns of four blocks of B; K holds their high bytes (lanes % 4 == 0), then
/// their low bytes (1), and is half empty. 8 columns are, for each row of A, what makes high * low + low * high of
/// these, and what makes high * high. For the products of the low bytes, K holds those of four blocks and of the next
/// four: three products for eight blocks.
/// Work: lane -> row lane % 4, column lane / 4 % 4 of blocks lane / 16, and 2, 4 and 6 behind it, of the eight.
template <bool Fits>
__device__ void add_segment_4(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                              std::uint32_t first_column, const Accumulators<4>& sums) {
  constexpr std::uint32_t kLoads = 4;  // in flight, of two blocks each
  const std::uint32_t group = threadIdx.x % 32 / 4;
  const std::uint32_t row = threadIdx.x % 4;
  const BytePair a = split_bytes(__ldg(reinterpret_cast<const uint2*>(a_block) + group / 2));
  const bool even = group % 2 == 0;
  // By rows of K, that is by row: even columns {low, high}, odd ones {high, 0}; for low bytes {low, 0} and {0, low}.
  const std::uint32_t a_cross = row == 0 ? (even ? a.low : a.high) : row == 1 && even ? a.high : 0;
  const std::uint32_t a_low = row == (even ? 0 : 1) ? a.low : 0;
  const std::uint32_t selector = row == 0 ? kHighBytes : kLowBytes;
  const std::uint32_t position = row * 4 + group % 4;
  const std::uint32_t base = sums.base(position) - first_column * 64;  // may wrap around; columns are added again
  // Shapes: columns, terms [4]: of blocks lane / 16 + {0, 2, 4, 6}.
  const auto multiply = [&](const std::uint32_t* columns, const uint2* terms, bool has_second) {
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
        sums.add_at<Fits>(base + column * 64, column - first_column, position,
                          combine<Fits>(cross[2 * h + 1], cross[2 * h], lows[2 * h + half]));
      }
    }
  };
  const std::uint32_t q = segment.first + group / 4;
  const std::uint32_t* inner = b.index.columns + q;
  const uint2* values = reinterpret_cast<const uint2*>(b.values) + std::uint64_t{q} * 4 + group % 4;
  std::uint32_t left = segment.end - segment.first;
  std::uint32_t columns[kLoads];
  uint2 terms[kLoads];
  for (; left >= 2 * kLoads; left -= 2 * kLoads, inner += 2 * kLoads, values += 8 * kLoads) {
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) {
      columns[u] = __ldg(inner + 2 * u);
      terms[u] = __ldg(values + 8 * u);
    }
    multiply(columns, terms, true);
  }
  if (left == 0) return;
#pragma unroll
  for (std::uint32_t u = 0; u < kLoads; ++u) {  // behind the end: zeros are added to the first block of the rest
    const bool is_there = 2 * u + group / 4 < left;
    columns[u] = __ldg(is_there ? inner + 2 * u : inner - group / 4);
    terms[u] = is_there ? __ldg(values + 8 * u) : uint2{0, 0};
  }
  multiply(columns, terms, left > 4);
}

/// m = 8 on tensor cores. K holds the low bytes of a block of B (lanes % 4 < 2), then its high bytes; 16 rows are what
/// makes high * low + low * high of these, and what makes high * high. For the products of the low bytes, K holds those
/// of one block and of the next: three products for two blocks.
/// Work: lane -> row lane / 4, columns lane % 4 and lane % 4 + 4.
template <bool Fits>
__device__ void add_segment_8(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                              std::uint32_t first_column, const Accumulators<8>& sums) {
  constexpr std::uint32_t kLoads = 4;  // in flight: enough to hide a load behind the products before it
  const std::uint32_t group = threadIdx.x % 32 / 4;
  const std::uint32_t within = threadIdx.x % 4;
  const bool second = within >= 2;  // half of K
  const BytePair a = split_bytes(__ldg(reinterpret_cast<const uint2*>(a_block + group * 8 + within % 2 * 4)));
  const std::uint32_t a_middle = second ? a.low : a.high;
  const std::uint32_t a_high = second ? a.high : 0;
  const std::uint32_t a_low[2] = {second ? 0 : a.low, second ? a.low : 0};
  const std::uint32_t selector = second ? kHighBytes : kLowBytes;
  // Column of the product `group` is column group / 2, or that + 4, of B's block: a lane gets two that lie 4 apart.
  const std::uint32_t from = (group / 2 + group % 2 * 4) * 8 + within % 2 * 4;
  const std::uint32_t positions[2] = {swizzled<8>(group * 8 + within), swizzled<8>(group * 8 + within + 4)};
  // May wrap around; columns are added again.
  const std::uint32_t bases[2] = {sums.base(positions[0]) - first_column * 256,
                                  sums.base(positions[1]) - first_column * 256};
  const auto add = [&](std::uint32_t column, const std::uint32_t* cross, const std::uint32_t* low) {
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) {
      sums.add_at<Fits>(bases[e] + column * 256, column - first_column, positions[e],
                        combine<Fits>(cross[2 + e], cross[e], low[e]));
    }
  };
  // Shapes: columns, terms [2].
  const auto multiply = [&](const std::uint32_t* columns, const uint2* terms, bool has_second) {
    const std::uint32_t bytes[2] = {__byte_perm(terms[0].x, terms[0].y, selector),
                                    __byte_perm(terms[1].x, terms[1].y, selector)};
    const std::uint32_t low = second ? __byte_perm(terms[1].x, terms[1].y, kLowBytes) : bytes[0];
    std::uint32_t lows[4] = {};  // of the first block, of the second
    mma_u8_16x8x16(lows, a_low[0], a_low[1], low);
    std::uint32_t cross[4] = {};  // middle, high
    mma_u8_16x8x16(cross, a_middle, a_high, bytes[0]);
    add(columns[0], cross, lows);
    if (!has_second) return;
    std::uint32_t next[4] = {};
    mma_u8_16x8x16(next, a_middle, a_high, bytes[1]);
    add(columns[1], next, lows + 2);
  };
  const std::uint32_t* inner = b.index.columns + segment.first;
  const std::uint16_t* values = b.values + std::uint64_t{segment.first} * 64 + from;
  std::uint32_t left = segment.end - segment.first;
  std::uint32_t columns[kLoads];
  uint2 terms[kLoads];
  for (; left >= kLoads; left -= kLoads, inner += kLoads, values += kLoads * 64) {
#pragma unroll
    for (std::uint32_t u = 0; u < kLoads; ++u) {
      columns[u] = __ldg(inner + u);
      terms[u] = __ldg(reinterpret_cast<const uint2*>(values + u * 64));
    }
    multiply(columns, terms, true);
    multiply(columns + 2, terms + 2, true);
  }
  if (left == 0) return;
#pragma unroll
  for (std::uint32_t u = 0; u < kLoads; ++u) {
    terms[u] = uint2{0, 0};
    if (u >= left) continue;
    columns[u] = __ldg(inner + u);
    terms[u] = __ldg(reinterpret_cast<const uint2*>(values + u * 64));
  }
  multiply(columns, terms, left > 1);
  if (left > 2) multiply(columns + 2, terms + 2, false);
}

/// m = 16, 32, 64 on tensor cores: 16 rows by 8 columns of the block at a time.
template <std::uint32_t M, bool Fits>
__device__ void add_segment_wide(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                                 std::uint32_t first_column, const Accumulators<M>& sums) {
  for (std::uint32_t row = 0; row < M; row += 16) {
    const WideRows<M> rows(a_block + row * M);
    for (std::uint32_t q = segment.first; q < segment.end; ++q) {
      const std::uint32_t c_block = __ldg(b.index.columns + q) - first_column;
      const std::uint16_t* const b_block = b.values + std::uint64_t{q} * M * M;
#pragma unroll 2
      for (std::uint32_t column = 0; column < M; column += 8) {
        WideSums products;
        products.add(rows, b_block + column * M);
#pragma unroll
        for (std::uint32_t e = 0; e < 4; ++e) {
          sums.template add<Fits>(c_block, (row + WideSums::row(e)) * M + column + WideSums::column(e),
                                  products.sum(e));
        }
      }
    }
  }
}

/// Any m: lanes over the elements of a block.
__device__ inline void add_segment_any_m(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                                         std::uint32_t first_column, std::uint32_t m, const Accumulators<0>& sums) {
  for (std::uint32_t q = segment.first; q < segment.end; ++q) {
    const std::uint32_t c_block = b.index.columns[q] - first_column;
    for (std::uint32_t e = threadIdx.x % 32; e < m * m; e += 32) {
      const std::uint64_t value = dot(a_block + e / m * m, b.values + (std::uint64_t{q} * m + e % m) * m, m);
      sums.add<false>(c_block, e, value);
    }
  }
}

}  // namespace spmm::kernels
