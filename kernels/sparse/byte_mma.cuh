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

/// 16 rows of a row-major block of A, M = 16, 32 or 64, split into bytes and spread over a warp: the operand a of M /
/// 16 products.
template <std::uint32_t M>
struct WideRows {
  BytePair top[M / 16];     // row lane / 4, terms 16x + 4 * (lane % 4) and the next three
  BytePair bottom[M / 16];  // row lane / 4 + 8

  /// Shapes: rows [16, M].
  __device__ explicit WideRows(const std::uint16_t* rows) {
    const std::uint16_t* const from = rows + threadIdx.x % 32 / 4 * M + threadIdx.x % 4 * 4;
#pragma unroll
    for (std::uint32_t x = 0; x < M / 16; ++x) {
      top[x] = split_bytes(__ldg(reinterpret_cast<const uint2*>(from + x * 16)));
      bottom[x] = split_bytes(__ldg(reinterpret_cast<const uint2*>(from + x * 16 + 8 * M)));
    }
  }
};

/// Exact sums of 16 rows of A times 8 columns of B, by pairs of bytes: high * high, high * low + low * high, low * low.
/// Values: up to kMaxTerms terms.
struct WideSums {
  static constexpr std::uint32_t kMaxTerms = 33'025;  // 2 * 255 * 255 of these fit 32 bits
  std::uint32_t high[4] = {};
  std::uint32_t middle[4] = {};
  std::uint32_t low[4] = {};

  /// Row and column of element e within the 16 x 8, for this lane.
  __device__ static std::uint32_t row(std::uint32_t e) { return threadIdx.x % 32 / 4 + e / 2 * 8; }
  __device__ static std::uint32_t column(std::uint32_t e) { return threadIdx.x % 4 * 2 + e % 2; }

  /// Adds M terms.
  /// Shapes: columns [8, M], the columns of B one after the other.
  template <std::uint32_t M>
  __device__ void add(const WideRows<M>& a, const std::uint16_t* columns) {
    const std::uint16_t* const from = columns + threadIdx.x % 32 / 4 * M + threadIdx.x % 4 * 4;
#pragma unroll
    for (std::uint32_t x = 0; x < M / 16; ++x) {
      const BytePair b = split_bytes(__ldg(reinterpret_cast<const uint2*>(from + x * 16)));
      mma_u8_16x8x16(high, a.top[x].high, a.bottom[x].high, b.high);
      mma_u8_16x8x16(middle, a.top[x].high, a.bottom[x].high, b.low);
      mma_u8_16x8x16(middle, a.top[x].low, a.bottom[x].low, b.high);
      mma_u8_16x8x16(low, a.top[x].low, a.bottom[x].low, b.low);
    }
  }
  [[nodiscard]] __device__ std::uint64_t sum(std::uint32_t e) const {
    return (std::uint64_t{high[e]} << 16) + (std::uint64_t{middle[e]} << 8) + low[e];
  }
};

}  // namespace spmm::kernels
