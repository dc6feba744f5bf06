// Sums of blocks times vectors with AVX-512: eight rows of a block at a time, eight columns in the lanes.
#include <algorithm>
#include <cstring>

#include "spmm/saturate.hpp"
#include "verify/sums/block_sums.hpp"
#include "verify/sums/field61.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spmm {
namespace {

constexpr std::uint32_t kLanes = 8;

inline __mmask8 first_lanes(std::uint32_t count) {
  return static_cast<__mmask8>((1u << std::min(count, kLanes)) - 1);
}

/// Eight elements, widened; lanes outside the mask are 0.
template <class T>
inline __m512i widened(const std::byte* values, __mmask8 lanes) {
  if constexpr (sizeof(T) == sizeof(std::uint16_t)) {
    return _mm512_cvtepu16_epi64(_mm_maskz_loadu_epi16(lanes, values));
  } else {
    return _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(lanes, values));
  }
}

/// Lane r = the sum of the lanes of vectors[r].
inline __m512i sum_each(const __m512i (&vectors)[kLanes]) {
  __m512i pairs[4];
  for (int x = 0; x < 4; ++x) {
    pairs[x] = _mm512_add_epi64(_mm512_unpacklo_epi64(vectors[2 * x], vectors[2 * x + 1]),
                                _mm512_unpackhi_epi64(vectors[2 * x], vectors[2 * x + 1]));
  }
  __m512i fours[2];
  for (int x = 0; x < 2; ++x) {
    fours[x] = _mm512_add_epi64(_mm512_shuffle_i64x2(pairs[2 * x], pairs[2 * x + 1], 0x88),
                                _mm512_shuffle_i64x2(pairs[2 * x], pairs[2 * x + 1], 0xdd));
  }
  return _mm512_add_epi64(_mm512_shuffle_i64x2(fours[0], fours[1], 0x88),
                          _mm512_shuffle_i64x2(fours[0], fours[1], 0xdd));
}

/// At most 2^61 + 7, and the same modulo p.
inline __m512i folded(__m512i x) {
  const __m512i prime = _mm512_set1_epi64(static_cast<long long>(kPrime61));
  return _mm512_add_epi64(_mm512_and_si512(x, prime), _mm512_srli_epi64(x, 61));
}

/// x 2^Bits modulo p for any x: a rotation of 61 bits.
template <int Bits>
inline __m512i shifted(__m512i x) {
  const __m512i prime = _mm512_set1_epi64(static_cast<long long>(kPrime61));
  const __m512i once = folded(folded(x));  // at most p
  return _mm512_or_si512(_mm512_and_si512(_mm512_slli_epi64(once, Bits), prime), _mm512_srli_epi64(once, 61 - Bits));
}

/// low + 2^21 middle + 2^42 high, below p.
inline __m512i combined(__m512i low, __m512i middle, __m512i high) {
  const __m512i prime = _mm512_set1_epi64(static_cast<long long>(kPrime61));
  const __m512i sum = folded(_mm512_add_epi64(folded(low), _mm512_add_epi64(shifted<21>(middle), shifted<42>(high))));
  return _mm512_min_epu64(sum, _mm512_sub_epi64(sum, prime));
}

/// Rows [first, first + Rows) of the sums. FixedM = m where it is not 0.
template <class T, int Rows, std::uint32_t FixedM>
inline void sum_group(const BlockTerm* terms, std::uint32_t count, std::uint32_t m_given, std::uint32_t first,
                      std::uint64_t* sums) {
  const std::uint32_t m = FixedM != 0 ? FixedM : m_given;
  const __m512i mask = _mm512_set1_epi64((1 << 21) - 1);
  __m512i low[kLanes];
  __m512i middle[kLanes];
  __m512i high[kLanes];
  for (std::uint32_t r = 0; r < kLanes; ++r) low[r] = middle[r] = high[r] = _mm512_setzero_si512();
  for (std::uint32_t t = 0; t < count; ++t) {
    const std::byte* const values = terms[t].values + std::size_t{first} * m * sizeof(T);
    for (std::uint32_t c = 0; c < m; c += kLanes) {
      const __mmask8 lanes = first_lanes(m - c);
      const __m512i x = _mm512_maskz_loadu_epi64(lanes, terms[t].vector + c);
      const __m512i x_low = _mm512_and_si512(x, mask);
      const __m512i x_middle = _mm512_and_si512(_mm512_srli_epi64(x, 21), mask);
      const __m512i x_high = _mm512_srli_epi64(x, 42);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const __m512i value = widened<T>(values + (static_cast<std::size_t>(r) * m + c) * sizeof(T), lanes);
        low[r] = _mm512_add_epi64(low[r], _mm512_mul_epu32(value, x_low));
        middle[r] = _mm512_add_epi64(middle[r], _mm512_mul_epu32(value, x_middle));
        high[r] = _mm512_add_epi64(high[r], _mm512_mul_epu32(value, x_high));
      }
    }
  }
  _mm512_mask_storeu_epi64(sums + first, first_lanes(Rows), combined(sum_each(low), sum_each(middle), sum_each(high)));
}

/// Lanes 0 to 3 = the sums of the halves of the first two vectors.
inline __m512i sum_halves(const __m512i (&pairs)[kLanes]) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i apart[kLanes] = {_mm512_maskz_mov_epi64(0x0f, pairs[0]),
                                 _mm512_maskz_mov_epi64(0xf0, pairs[0]),
                                 _mm512_maskz_mov_epi64(0x0f, pairs[1]),
                                 _mm512_maskz_mov_epi64(0xf0, pairs[1]),
                                 zero,
                                 zero,
                                 zero,
                                 zero};
  return sum_each(apart);
}

/// Blocks of side 4: two rows in a vector.
template <class T>
void sum_side_4(const BlockTerm* terms, std::uint32_t count, std::uint32_t, std::uint64_t* sums) {
  const __m512i mask = _mm512_set1_epi64((1 << 21) - 1);
  __m512i low[kLanes];
  __m512i middle[kLanes];
  __m512i high[kLanes];
  for (std::uint32_t r = 0; r < kLanes; ++r) low[r] = middle[r] = high[r] = _mm512_setzero_si512();
  for (std::uint32_t t = 0; t < count; ++t) {
    const __m512i x = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(terms[t].vector)));
    const __m512i x_low = _mm512_and_si512(x, mask);
    const __m512i x_middle = _mm512_and_si512(_mm512_srli_epi64(x, 21), mask);
    const __m512i x_high = _mm512_srli_epi64(x, 42);
    for (int v = 0; v < 2; ++v) {
      const __m512i value = widened<T>(terms[t].values + static_cast<std::size_t>(v) * kLanes * sizeof(T), 0xff);
      low[v] = _mm512_add_epi64(low[v], _mm512_mul_epu32(value, x_low));
      middle[v] = _mm512_add_epi64(middle[v], _mm512_mul_epu32(value, x_middle));
      high[v] = _mm512_add_epi64(high[v], _mm512_mul_epu32(value, x_high));
    }
  }
  _mm512_mask_storeu_epi64(sums, 0x0f, combined(sum_halves(low), sum_halves(middle), sum_halves(high)));
}

template <class T>
void sum_last_group(const BlockTerm* terms, std::uint32_t count, std::uint32_t m, std::uint32_t first,
                    std::uint64_t* sums) {
  switch (m - first) {
    case 1:
      return sum_group<T, 1, 0>(terms, count, m, first, sums);
    case 2:
      return sum_group<T, 2, 0>(terms, count, m, first, sums);
    case 3:
      return sum_group<T, 3, 0>(terms, count, m, first, sums);
    case 4:
      return sum_group<T, 4, 0>(terms, count, m, first, sums);
    case 5:
      return sum_group<T, 5, 0>(terms, count, m, first, sums);
    case 6:
      return sum_group<T, 6, 0>(terms, count, m, first, sums);
    case 7:
      return sum_group<T, 7, 0>(terms, count, m, first, sums);
    default:
      return sum_group<T, 8, 0>(terms, count, m, first, sums);
  }
}

template <class T>
void sum_blocks(const BlockTerm* terms, std::uint32_t count, std::uint32_t m, std::uint64_t* sums) {
  if (m == 8) return sum_group<T, 8, 8>(terms, count, m, 0, sums);
  if (m == 4) return sum_side_4<T>(terms, count, m, sums);
  for (std::uint32_t first = 0; first < m; first += kLanes) sum_last_group<T>(terms, count, m, first, sums);
}

void sum_rows(const std::byte* values, std::uint32_t m, std::uint64_t* sums) {
  for (std::uint32_t first = 0; first < m; first += kLanes) {
    const std::uint32_t rows = std::min(kLanes, m - first);
    __m512i each[kLanes];
    for (std::uint32_t r = 0; r < kLanes; ++r) each[r] = _mm512_setzero_si512();
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t c = 0; c < m; c += kLanes) {
        const std::byte* const at = values + (std::size_t{first + r} * m + c) * sizeof(std::uint16_t);
        each[r] = _mm512_add_epi64(each[r], widened<std::uint16_t>(at, first_lanes(m - c)));
      }
    }
    _mm512_mask_storeu_epi64(sums + first, first_lanes(rows), sum_each(each));
  }
}

/// Eight columns of the product at a time. FixedM = m where it is not 0.
template <std::uint32_t FixedM>
inline void add_columns(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m_given, std::uint64_t* sums) {
  const std::size_t m = FixedM != 0 ? FixedM : m_given;
  for (std::size_t c = 0; c < m; c += kLanes) {
    const __mmask8 lanes = first_lanes(static_cast<std::uint32_t>(m - c));
    for (std::size_t r = 0; r < m; ++r) {
      __m512i sum = _mm512_maskz_loadu_epi64(lanes, sums + r * m + c);
      for (std::size_t t = 0; t < m; ++t) {
        const __m512i row = _mm512_cvtepu16_epi64(_mm_maskz_loadu_epi16(lanes, b + t * m + c));
        sum = _mm512_add_epi64(sum, _mm512_mul_epu32(_mm512_set1_epi64(a[r * m + t]), row));
      }
      _mm512_mask_storeu_epi64(sums + r * m + c, lanes, sum);
    }
  }
}

/// Side 4: two rows of the product in a vector.
inline void add_side_4(const std::uint16_t* a, const std::uint16_t* b, std::uint64_t* sums) {
  const __m512i columns = _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0);  // of two rows of A
  __m512i rows[4];
  for (int t = 0; t < 4; ++t) {
    rows[t] = _mm512_broadcast_i64x4(
        _mm256_cvtepu16_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(b + std::size_t{4} * t))));
  }
  for (int v = 0; v < 2; ++v) {
    const __m512i two =
        _mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + std::size_t{8} * v)));
    __m512i sum = _mm512_loadu_si512(sums + std::size_t{8} * v);
    for (int t = 0; t < 4; ++t) {
      const __m512i factors = _mm512_permutexvar_epi64(_mm512_add_epi64(columns, _mm512_set1_epi64(t)), two);
      sum = _mm512_add_epi64(sum, _mm512_mul_epu32(factors, rows[t]));
    }
    _mm512_storeu_si512(sums + std::size_t{8} * v, sum);
  }
}

void add_product(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m, std::uint64_t* sums) {
  if (m == 8) return add_columns<8>(a, b, m, sums);
  if (m == 4) return add_side_4(a, b, sums);
  add_columns<0>(a, b, m, sums);
}

bool is_saturated(const std::byte* values, std::uint64_t count) {
  const __m512i largest = _mm512_set1_epi32(-1);
  __mmask16 found = 0;
  std::uint64_t e = 0;
  for (; e + 16 <= count; e += 16) {
    found |= _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(values + e * sizeof(std::uint32_t)), largest);
  }
  const auto rest = static_cast<__mmask16>((1u << (count - e)) - 1);
  found |=
      _mm512_mask_cmpeq_epi32_mask(rest, _mm512_maskz_loadu_epi32(rest, values + e * sizeof(std::uint32_t)), largest);
  return found != 0;
}

}  // namespace

}  // namespace spmm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace spmm {

BlockSums avx512_block_sums() {
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!has) return {};
  return {.u16 = sum_blocks<std::uint16_t>,
          .u32 = sum_blocks<std::uint32_t>,
          .rows_u16 = sum_rows,
          .is_saturated = is_saturated,
          .add_product = add_product};
}

}  // namespace spmm

#else  // another machine

namespace spmm {

BlockSums avx512_block_sums() {
  return {};
}

}  // namespace spmm

#endif
