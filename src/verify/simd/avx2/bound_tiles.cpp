// Tiles of sums of products of bytes with AVX2: four rows and two vectors of 8 columns at a time.
#include "verify/simd/bound_tiles.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace spmm {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kRows = 4;
constexpr std::size_t kVectors = 2;
static_assert(kBoundTileRows % kRows == 0 && kBoundStrip % (kVectors * kLanes) == 0);

/// kRows x kVectors * kLanes sums.
inline void add_rows(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* strip, std::uint32_t* sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum[kRows][kVectors];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      sum[r][v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + r * kBoundTileColumns + v * kLanes));
    }
  }
  for (std::size_t k = 0; k < kBoundDepth; k += 4, strip += 4 * kBoundStrip) {
    __m256i columns[kVectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      columns[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(strip + std::size_t{v} * 4 * kLanes));
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      std::int32_t four = 0;
      std::memcpy(&four, a + r * a_stride + k, sizeof four);
      const __m256i row = _mm256_set1_epi32(four);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < kVectors; ++v) {  // pairs of products: 2 * 127 * 127 fits 16 bits
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(_mm256_maddubs_epi16(columns[v], row), ones));
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(sums + r * kBoundTileColumns + v * kLanes), sum[r][v]);
    }
  }
}

void add_bytes(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* b, std::size_t b_stride,
               std::uint32_t* sums) {
  constexpr std::size_t kStep = kVectors * kLanes;
  for (std::size_t first = 0; first < kBoundTileColumns; first += kBoundStrip, b += b_stride) {
    for (std::size_t r = 0; r < kBoundTileRows; r += kRows) {
      for (std::size_t c = 0; c < kBoundStrip; c += kStep) {
        add_rows(a + r * a_stride, a_stride, b + std::size_t{c} * 4, sums + r * kBoundTileColumns + first + c);
      }
    }
  }
}

bool reach_limit(std::uint32_t* sums, std::uint32_t limit, std::uint32_t cut_to) {
  const __m256i least = _mm256_set1_epi32(static_cast<int>(limit));
  const __m256i most = _mm256_set1_epi32(static_cast<int>(cut_to));
  __m256i all = _mm256_set1_epi32(-1);
  for (std::size_t e = 0; e < kBoundTileRows * kBoundTileColumns; e += kLanes) {
    auto* const place = reinterpret_cast<__m256i*>(sums + e);
    __m256i sum = _mm256_load_si256(place);
    if (cut_to != 0) {
      sum = _mm256_min_epu32(sum, most);
      _mm256_store_si256(place, sum);
    }
    all = _mm256_and_si256(all, _mm256_cmpeq_epi32(_mm256_max_epu32(sum, least), sum));
  }
  return _mm256_movemask_epi8(all) == -1;
}

}  // namespace

}  // namespace spmm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace spmm {

BoundTiles avx2_bound_tiles() {
  if (!__builtin_cpu_supports("avx2")) return {};
  return {.add = add_bytes, .reach = reach_limit, .bits_a = 7, .bits_b = 7, .products_per_s = 50e9};
}

}  // namespace spmm

#else  // another machine

namespace spmm {

BoundTiles avx2_bound_tiles() {
  return {};
}

}  // namespace spmm

#endif
