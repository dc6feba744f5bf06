// Registers of AVX-512 with VNNI, as avx2.hpp has those of AVX2.
#pragma once

#if defined(__x86_64__)
#define SPMM_ISA "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi"

#include <immintrin.h>

#include <cstdint>

#include "cpu/simd/target.hpp"
#include "cpu/simd/tile_kernel.hpp"

#if !defined(__clang__)
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

struct Vectors {
  using Register = __m512i;
  static constexpr std::uint32_t kLanes = 16;
  static constexpr std::uint32_t kQuarters = 4;
  static constexpr std::uint32_t kNarrowStripRows = 8;
  static constexpr std::uint32_t kWideStripRows = 8;

  static Register zero() { return _mm512_setzero_si512(); }
  static Register load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, Register x) { _mm512_storeu_si512(to, x); }
  static Register spread(std::int32_t x) { return _mm512_set1_epi32(x); }
  static Register repeat(const void* from) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  template <int T>
  static Register pick(Register x) {
    return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(T * 0x55));
  }
  static Register rows_of_4(const void* from) {
    const __m512i rows = _mm512_castsi256_si512(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), rows);
  }
  static Register repeat_each(const std::uint32_t* from) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m512i order = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(order, _mm512_castsi128_si512(values));
  }
  static Register zip_lower(Register x, Register y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), y);
  }
  static Register zip_upper(Register x, Register y) {
    return _mm512_permutex2var_epi64(x, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), y);
  }

  static Register bits_of_both(Register x, Register y) { return _mm512_or_si512(x, y); }
  static bool any(Register x) { return _mm512_test_epi32_mask(x, x) != 0; }
  static Register add_products(Register sum, Register x, Register y) { return _mm512_dpwssd_epi32(sum, x, y); }
  static Register add_clamped(Register sum, Register products) {
    const Register most = _mm512_xor_si512(sum, _mm512_set1_epi32(-1));
    return _mm512_add_epi32(sum, _mm512_min_epu32(products, most));
  }

  static Register low_bytes(Register a) { return _mm512_and_si512(a, _mm512_set1_epi16(0xFF)); }
  static Register high_bytes(Register a) { return _mm512_srli_epi16(a, 8); }
  static Register offset(Register b) { return _mm512_xor_si512(b, _mm512_set1_epi16(static_cast<short>(0x8000))); }
  static Register join_digits(Register low, Register high, Register row_sums) {
    constexpr int kOrAnd = 0xF8;  // first | (second & third)
    const Register upper = _mm512_add_epi32(_mm512_add_epi32(high, row_sums), _mm512_srai_epi32(low, 8));
    const Register sum = _mm512_ternarylogic_epi32(_mm512_slli_epi32(upper, 8), low, _mm512_set1_epi32(0xFF), kOrAnd);
    const __mmask16 is_over = _mm512_cmpge_epu32_mask(upper, _mm512_set1_epi32(1 << 24));
    return _mm512_mask_mov_epi32(sum, is_over, _mm512_set1_epi32(-1));
  }

  static void widen(const Halves& from, Lanes& to) {
    to = reinterpret_cast<Lanes>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(from)));
  }
  static std::uint32_t nonzero_lanes(const std::uint32_t* row) {
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
    return _mm256_test_epi32_mask(values, values);
  }
  static std::uint64_t zero_bytes(const std::uint8_t* bytes) {
    const Register values = load(bytes);
    return _mm512_testn_epi8_mask(values, values);
  }
};

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END
#endif
