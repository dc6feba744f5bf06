// Sums of rows of C for AVX2, sides 4 and 8.
#include "cpu/accumulator_kernel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "plan/host_models.hpp"
#include "spmm/types.hpp"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace spmm::cpu {
namespace {

inline __m256i load(const std::uint32_t* sums) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(sums));
}
inline void store(std::uint32_t* sums, __m256i value) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(sums), value);
}

template <std::size_t kElements>
inline void fetch_block(const std::uint16_t* block) {
  constexpr std::size_t kLineElements = 32;
  for (std::size_t e = 0; e < kElements; e += kLineElements) __builtin_prefetch(block + e);
}

/// Values: no term is negative, so clamped sums may be added in any order.
template <bool kClamps>
inline __m256i add(__m256i sum, __m256i products) {
  if constexpr (kClamps) {
    const __m256i most = _mm256_xor_si256(sum, _mm256_set1_epi32(-1));  // that fits
    products = _mm256_min_epu32(products, most);
  }
  return _mm256_add_epi32(sum, products);
}

/// Side 4: two registers of sums, a lane of 128 bits per row.
template <bool kClamps>
std::uint32_t add_4(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
  constexpr std::size_t kElements = 16;
  const auto [a, b, cols, count, ahead] = run;
  const __m256i block = _mm256_load_si256(reinterpret_cast<const __m256i*>(a));
  const __m256i first = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
  __m256i spread[2][2];  // [rows 0-1, rows 2-3][elements 0-1, elements 2-3], each for all columns of its lane
  for (int half = 0; half < 2; ++half) {
    for (int t = 0; t < 2; ++t) {
      spread[half][t] = _mm256_permutevar8x32_epi32(block, _mm256_add_epi32(first, _mm256_set1_epi32(4 * half + t)));
    }
  }
  std::uint32_t x = 0;
  for (; x < count && cols[x] < end_col; ++x) {
    fetch_block<kElements>(ahead + x * kElements);
    std::uint32_t* const at = sums + (cols[x] - first_col) * kElements;
    const auto* of_b = reinterpret_cast<const __m128i*>(b + x * kElements);
    const __m256i upper = _mm256_broadcastsi128_si256(_mm_load_si128(of_b));
    const __m256i lower = _mm256_broadcastsi128_si256(_mm_load_si128(of_b + 1));
    for (std::size_t half = 0; half < 2; ++half) {
      const __m256i products =
          _mm256_add_epi32(_mm256_madd_epi16(spread[half][0], upper), _mm256_madd_epi16(spread[half][1], lower));
      store(at + 8 * half, add<kClamps>(load(at + 8 * half), products));
    }
  }
  return x;
}

/// Side 8: a register of sums per row.
template <bool kClamps>
std::uint32_t add_8(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
  constexpr std::size_t kElements = 64;
  const auto [a, b, cols, count, ahead] = run;
  std::uint32_t x = 0;
  for (; x < count && cols[x] < end_col; ++x) {
    fetch_block<kElements>(ahead + x * kElements);
    std::uint32_t* const at = sums + (cols[x] - first_col) * kElements;
    const auto* of_b = reinterpret_cast<const __m256i*>(b + x * kElements);
    __m256i rows[8];
    for (std::size_t r = 0; r < 8; ++r) rows[r] = kClamps ? _mm256_setzero_si256() : load(at + 8 * r);
    for (std::size_t t = 0; t < 4; ++t) {
      const __m256i columns = _mm256_load_si256(of_b + t);
      for (std::size_t r = 0; r < 8; ++r) {
        std::int32_t two_elements;
        std::memcpy(&two_elements, a + 8 * r + 2 * t, sizeof two_elements);
        rows[r] = _mm256_add_epi32(rows[r], _mm256_madd_epi16(_mm256_set1_epi32(two_elements), columns));
      }
    }
    for (std::size_t r = 0; r < 8; ++r) {
      store(at + 8 * r, kClamps ? add<true>(load(at + 8 * r), rows[r]) : rows[r]);
    }
  }
  return x;
}

/// Sums lie as records have them.
template <std::size_t kSide>
std::byte* store_records(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                         std::byte* out) {
  constexpr std::size_t kElements = kSide * kSide;
  constexpr std::size_t kHeadBytes = sizeof(BlockIndex);
  for (std::uint32_t x = 0; x < count; ++x, sums += kElements) {
    const BlockIndex at{.i = row, .j = first_col + x};  // overwritten by the next record unless a sum is not zero
    std::memcpy(out, &at, kHeadBytes);
    __m256i any = _mm256_setzero_si256();
    for (std::size_t e = 0; e < kElements; e += 8) {
      const __m256i values = load(sums + e);
      any = _mm256_or_si256(any, values);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + kHeadBytes + e * sizeof(std::uint32_t)), values);
      store(sums + e, _mm256_setzero_si256());
    }
    out += _mm256_testz_si256(any, any) == 0 ? kHeadBytes + kElements * sizeof(std::uint32_t) : 0;
  }
  return out;
}

}  // namespace

AccumulatorKernel avx2_accumulator(const PackedShape& shape) {
  const double least_pairs = plan::least_summed_pairs(Isa::avx2, shape.m);
  if (shape.m == 4) {
    return {.sum_elements = 16,
            .sums_bytes = kSide4SumsBytes,
            .least_pairs = least_pairs,
            .add = add_4<false>,
            .add_clamped = add_4<true>,
            .store = store_records<4>};
  }
  if (shape.m == 8) {
    return {.sum_elements = 64,
            .sums_bytes = kSumsBytes,
            .least_pairs = least_pairs,
            .add = add_8<false>,
            .add_clamped = add_8<true>,
            .store = store_records<8>};
  }
  return {};
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

AccumulatorKernel avx2_accumulator(const PackedShape&) {
  return {};
}

}  // namespace spmm::cpu

#endif
