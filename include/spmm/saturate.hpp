// The arithmetic contract, in one place:
//   C[r,c] = min(2^32 - 1, exact sum over t of A[r,t] * B[t,c]).
// A product of two u16 fits u32 and u64 holds the exact sum of every legal file. No term is negative, so
//   min(x + y, M) = min(min(x, M) + min(y, M), M):
// clamped partial sums may be merged in any order, and an element that has reached kMaxVal is finished.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define SPMM_HOST_DEVICE __host__ __device__
#else
#define SPMM_HOST_DEVICE
#endif

namespace spmm {

/// Largest value of a result element; larger sums are clamped to it.
inline constexpr std::uint32_t kMaxVal = 0xFFFF'FFFFu;

/// Clamps an exact sum.
SPMM_HOST_DEVICE constexpr std::uint32_t saturate(std::uint64_t sum) {
  return sum > kMaxVal ? kMaxVal : static_cast<std::uint32_t>(sum);
}

/// Merges two clamped partial sums.
SPMM_HOST_DEVICE constexpr std::uint32_t saturating_add(std::uint32_t x, std::uint32_t y) {
  return saturate(std::uint64_t{x} + y);
}

/// One exact term.
SPMM_HOST_DEVICE constexpr std::uint64_t multiply_exact(std::uint16_t a, std::uint16_t b) {
  return std::uint64_t{a} * b;
}

}  // namespace spmm
