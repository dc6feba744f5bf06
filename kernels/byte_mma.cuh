// Warp-level products of bytes on tensor cores (compute capability 8.0 and newer).
// Source: PTX ISA, mma.sync.m16n8k16 with .u8 operands.
#pragma once

#include <cstdint>

namespace spmm::kernels {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
inline constexpr bool kHasByteMma = true;
#else
inline constexpr bool kHasByteMma = false;
#endif

/// High and low bytes of four u16, packed.
struct BytePair {
  std::uint32_t high = 0;
  std::uint32_t low = 0;
};

__device__ inline BytePair split_bytes(uint2 four) {
  return {.high = __byte_perm(four.x, four.y, 0x7531), .low = __byte_perm(four.x, four.y, 0x6420)};
}

/// d += a * b with a 16 x 16, b 16 x 8 bytes, exact 32-bit sums. All lanes of a warp call it.
/// Layout: g = lane / 4, q = lane % 4: a_top = a[g][4q ...], a_bottom = a[g + 8][4q ...], b = b[4q ...][g];
/// d[0], d[1] = d[g][2q, 2q + 1], d[2], d[3] = d[g + 8][2q, 2q + 1].
__device__ inline void mma_u8_16x8x16(std::uint32_t (&d)[4], std::uint32_t a_top, std::uint32_t a_bottom,
                                      std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a_top), "r"(a_bottom), "r"(b));
#endif
}

}  // namespace spmm::kernels
