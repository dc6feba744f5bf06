// Warp-level products of bytes on tensor cores (compute capability 7.5 and newer).
// Source: PTX ISA, mma.sync.m16n8k16 and m8n8k16 with .u8 operands.
#pragma once

#include <cstdint>

namespace spmm::kernels {

/// High and low bytes of four u16, packed.
struct BytePair {
  std::uint32_t high = 0;
  std::uint32_t low = 0;
};

__device__ inline BytePair split_bytes(uint2 four) {
  return {.high = __byte_perm(four.x, four.y, 0x7531), .low = __byte_perm(four.x, four.y, 0x6420)};
}

/// d += a * b with a 16 x 16, b 16 x 8 bytes, exact 32-bit sums.
/// Layout: g = lane / 4, q = lane % 4.
///
///   a         K 4q to 4q + 3     b          column g           d          column 2q   2q + 1
///   row g     a_top              K 4q to    b                  row g      d[0]        d[1]
///   row g + 8 a_bottom           4q + 3                        row g + 8  d[2]        d[3]
///
/// Threads: one whole warp.
__device__ inline void mma_u8_16x8x16(std::uint32_t (&d)[4], std::uint32_t a_top, std::uint32_t a_bottom,
                                      std::uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a_top), "r"(a_bottom), "r"(b));
#else  // the same in two halves of 8 rows
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a_top), "r"(b));
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(d[2]), "+r"(d[3])
               : "r"(a_bottom), "r"(b));
#endif
}

/// Exact sums of 8 rows of A times 8 columns of B, by pairs of bytes: the rows of A lie in the first operand twice,
/// their high bytes over their low bytes. Layout: a lane's sums are those of row lane / 4, columns 2 * (lane % 4) and
/// the next. Values: up to kMaxTerms terms.
struct Sums8 {
  static constexpr std::uint32_t kMaxTerms = 65'536;  // 255 * 255 of these fit 32 bits
  std::uint32_t high[4] = {};                         // high(B) with high(A), with low(A)
  std::uint32_t low[4] = {};                          // low(B) with high(A), with low(A)

  __device__ static std::uint32_t row() { return threadIdx.x % 32 / 4; }
  __device__ static std::uint32_t column() { return threadIdx.x % 4 * 2; }

  /// Adds 16 terms. Layout: a, b: row or column lane / 4, terms 4 * (lane % 4) and the next three.
  /// Threads: one whole warp.
  __device__ void add(BytePair a, BytePair b) {
    mma_u8_16x8x16(high, a.high, a.low, b.high);
    mma_u8_16x8x16(low, a.high, a.low, b.low);
  }
  [[nodiscard]] __device__ std::uint64_t sum(std::uint32_t e) const {
    return (std::uint64_t{high[e]} << 16) + ((std::uint64_t{high[2 + e]} + low[e]) << 8) + low[2 + e];
  }
  /// The same if the result fits 32 bits.
  [[nodiscard]] __device__ std::uint32_t small_sum(std::uint32_t e) const {
    return (high[e] << 16) + ((high[2 + e] + low[e]) << 8) + low[2 + e];
  }
};

}  // namespace spmm::kernels
