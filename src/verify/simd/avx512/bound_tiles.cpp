// Tiles of sums of products of bytes with AVX-512 VNNI: six rows and four vectors of 16 columns at a time.
#include "verify/simd/bound_tiles.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vnni")
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spmm {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kRows = 6;  // 24 registers of sums
constexpr std::size_t kVectors = kBoundStrip / kLanes;
static_assert(kBoundTileRows % kRows == 0);

/// kRows x kBoundStrip sums.
inline void add_rows(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* strip, std::uint32_t* sums) {
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 6
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      sum[r][v] = _mm512_load_si512(sums + r * kBoundTileColumns + v * kLanes);
    }
  }
  for (std::size_t k = 0; k < kBoundDepth; k += 4, strip += 4 * kBoundStrip) {
    __m512i columns[kVectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(strip + std::size_t{v} * 4 * kLanes);
#pragma GCC unroll 6
    for (std::size_t r = 0; r < kRows; ++r) {
      std::int32_t four = 0;
      std::memcpy(&four, a + r * a_stride + k, sizeof four);
      const __m512i row = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], columns[v], row);
    }
  }
#pragma GCC unroll 6
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      _mm512_store_si512(sums + r * kBoundTileColumns + v * kLanes, sum[r][v]);
    }
  }
}

void add_bytes(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* b, std::size_t b_stride,
               std::uint32_t* sums) {
  for (std::size_t first = 0; first < kBoundTileColumns; first += kBoundStrip, b += b_stride) {
    for (std::size_t r = 0; r < kBoundTileRows; r += kRows) {
      add_rows(a + r * a_stride, a_stride, b, sums + r * kBoundTileColumns + first);
    }
  }
}

bool reach_limit(std::uint32_t* sums, std::uint32_t limit, std::uint32_t cut_to) {
  const __m512i least = _mm512_set1_epi32(static_cast<int>(limit));
  const __m512i most = _mm512_set1_epi32(static_cast<int>(cut_to));
  __mmask16 below = 0;
  for (std::size_t e = 0; e < kBoundTileRows * kBoundTileColumns; e += kLanes) {
    __m512i sum = _mm512_load_si512(sums + e);
    if (cut_to != 0) {
      sum = _mm512_min_epu32(sum, most);
      _mm512_store_si512(sums + e, sum);
    }
    below |= _mm512_cmplt_epu32_mask(sum, least);
  }
  return below == 0;
}

}  // namespace

}  // namespace spmm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace spmm {

BoundTiles avx512_bound_tiles() {
  const bool has =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni");
  if (!has) return {};
  // The second factor of the instruction is signed.
  return {.add = add_bytes, .reach = reach_limit, .bits_a = 7, .bits_b = 8, .products_per_s = 200e9};
}

}  // namespace spmm

#else  // another machine

namespace spmm {

BoundTiles avx512_bound_tiles() {
  return {};
}

}  // namespace spmm

#endif
