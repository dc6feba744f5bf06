// Sums of blocks times vectors with AVX2: four rows of a block at a time, four columns in the lanes.
#include <array>
#include <cstring>

#include "spmm/saturate.hpp"
#include "spmm/types.hpp"
#include "verify/sums/block_sums.hpp"
#include "verify/sums/field61.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace spmm {
namespace {

constexpr std::uint32_t kLanes = 4;

/// Four elements, widened; lanes from `count` on are 0.
template <class T>
inline __m256i widened(const std::byte* values, std::uint32_t count) {
  std::array<T, kLanes> part{};
  const std::byte* from = values;
  if (count < kLanes) {
    std::memcpy(part.data(), values, count * sizeof(T));
    from = reinterpret_cast<const std::byte*>(part.data());
  }
  if constexpr (sizeof(T) == sizeof(std::uint16_t)) {
    return _mm256_cvtepu16_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  } else {
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
}

inline __m256i vector_part(const std::uint64_t* vector, std::uint32_t count) {
  if (count >= kLanes) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(vector));
  alignas(32) std::array<std::uint64_t, kLanes> part{};
  std::memcpy(part.data(), vector, count * sizeof(std::uint64_t));
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(part.data()));
}

inline std::uint64_t sum_lanes(__m256i x) {
  alignas(32) std::array<std::uint64_t, kLanes> lanes;
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes.data()), x);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

/// Rows [first, first + Rows) of the sums.
template <class T, int Rows>
inline void sum_group(const BlockTerm* terms, std::uint32_t count, std::uint32_t m, std::uint32_t first,
                      std::uint64_t* sums) {
  const __m256i mask = _mm256_set1_epi64x((1 << 21) - 1);
  __m256i low[Rows];
  __m256i middle[Rows];
  __m256i high[Rows];
  for (int r = 0; r < Rows; ++r) low[r] = middle[r] = high[r] = _mm256_setzero_si256();
  for (std::uint32_t t = 0; t < count; ++t) {
    const std::byte* const values = terms[t].values + std::size_t{first} * m * sizeof(T);
    for (std::uint32_t c = 0; c < m; c += kLanes) {
      const __m256i x = vector_part(terms[t].vector + c, m - c);
      const __m256i x_low = _mm256_and_si256(x, mask);
      const __m256i x_middle = _mm256_and_si256(_mm256_srli_epi64(x, 21), mask);
      const __m256i x_high = _mm256_srli_epi64(x, 42);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        const __m256i value = widened<T>(values + (static_cast<std::size_t>(r) * m + c) * sizeof(T), m - c);
        low[r] = _mm256_add_epi64(low[r], _mm256_mul_epu32(value, x_low));
        middle[r] = _mm256_add_epi64(middle[r], _mm256_mul_epu32(value, x_middle));
        high[r] = _mm256_add_epi64(high[r], _mm256_mul_epu32(value, x_high));
      }
    }
  }
  using Wide = unsigned __int128;
  for (int r = 0; r < Rows; ++r) {
    sums[first + static_cast<std::uint32_t>(r)] =
        reduce61(Wide{sum_lanes(low[r])} + (Wide{sum_lanes(middle[r])} << 21) + (Wide{sum_lanes(high[r])} << 42));
  }
}

template <class T>
void sum_blocks(const BlockTerm* terms, std::uint32_t count, std::uint32_t m, std::uint64_t* sums) {
  std::uint32_t first = 0;
  for (; first + kLanes <= m; first += kLanes) sum_group<T, 4>(terms, count, m, first, sums);
  for (; first < m; ++first) sum_group<T, 1>(terms, count, m, first, sums);
}

}  // namespace

}  // namespace spmm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace spmm {

BlockSums avx2_block_sums() {
  if (!__builtin_cpu_supports("avx2")) return {};
  BlockSums sums = portable_block_sums();
  sums.u16 = sum_blocks<std::uint16_t>;
  sums.u32 = sum_blocks<std::uint32_t>;
  return sums;
}

}  // namespace spmm

#else  // another machine

namespace spmm {

BlockSums avx2_block_sums() {
  return {};
}

}  // namespace spmm

#endif
