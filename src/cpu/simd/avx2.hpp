// Registers of AVX2 for the kernels of block_kernels.hpp and tile_kernels.hpp.
#pragma once

#if defined(__x86_64__)
#define SPMM_ISA "avx2,bmi,popcnt"

#include <immintrin.h>

#include <cstdint>

#include "cpu/simd/target.hpp"
#include "cpu/simd/tile_kernel.hpp"

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

struct Vectors {
  using Register = __m256i;
  static constexpr std::uint32_t kLanes = 8;             // of 32 bits
  static constexpr std::uint32_t kQuarters = 2;          // of 128 bits, each of four lanes
  static constexpr std::uint32_t kNarrowStripRows = 12;  // sums of as many rows fit the registers
  static constexpr std::uint32_t kWideStripRows = 4;

  static Register zero() { return _mm256_setzero_si256(); }
  static Register load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static void store(void* to, Register x) { _mm256_storeu_si256(static_cast<__m256i*>(to), x); }
  static Register spread(std::int32_t x) { return _mm256_set1_epi32(x); }
  /// 128 bits in each quarter.
  static Register repeat(const void* from) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  /// Lane T of each quarter in all of its lanes.
  template <int T>
  static Register pick(Register x) {
    return _mm256_shuffle_epi32(x, T * 0x55);
  }
  /// 64 bits in each quarter, one after the other. Shapes: from [kQuarters, 64 bits].
  static Register rows_of_4(const void* from) {
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(from))),
                                       _mm256_setr_epi32(0, 1, 0, 1, 2, 3, 2, 3));
  }
  /// One of some values in all lanes of each quarter. Shapes: from [kQuarters].
  static Register repeat_each(const std::uint32_t* from) {
    const __m128i values = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(values), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
  }
  /// Quarters of two registers in turns: the lower ones, and the upper ones.
  static Register zip_lower(Register x, Register y) { return _mm256_permute2x128_si256(x, y, 0x20); }
  static Register zip_upper(Register x, Register y) { return _mm256_permute2x128_si256(x, y, 0x31); }

  static Register bits_of_both(Register x, Register y) { return _mm256_or_si256(x, y); }
  static bool any(Register x) { return _mm256_testz_si256(x, x) == 0; }
  /// Sums of two products of signed 16 bits in each lane, added.
  static Register add_products(Register sum, Register x, Register y) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
  }
  /// Values: no term is negative, so clamped sums may be added in any order.
  static Register add_clamped(Register sum, Register products) {
    const Register most = _mm256_xor_si256(sum, _mm256_set1_epi32(-1));  // that fits
    return _mm256_add_epi32(sum, _mm256_min_epu32(products, most));
  }

  // Wide arithmetic (kernels.hpp).
  static Register low_bytes(Register a) { return _mm256_and_si256(a, _mm256_set1_epi16(0xFF)); }
  static Register high_bytes(Register a) { return _mm256_srli_epi16(a, 8); }
  static Register offset(Register b) { return _mm256_xor_si256(b, _mm256_set1_epi16(static_cast<short>(0x8000))); }
  /// low + 256 * (high + row_sums), clamped. Values: of one run, so that a 256th of it fits 32 bits.
  static Register join_digits(Register low, Register high, Register row_sums) {
    const Register upper = _mm256_add_epi32(_mm256_add_epi32(high, row_sums), _mm256_srai_epi32(low, 8));
    const Register lowest = _mm256_and_si256(low, _mm256_set1_epi32(0xFF));
    const Register sum = _mm256_or_si256(_mm256_slli_epi32(upper, 8), lowest);
    return _mm256_or_si256(sum, _mm256_cmpgt_epi32(_mm256_srli_epi32(upper, 24), _mm256_setzero_si256()));
  }

  // Of tiles (tile_kernel.hpp).
  static void widen(const Halves& from, Lanes& to) {
    to = reinterpret_cast<Lanes>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(from)));
  }
  /// A bit for each lane that is not 0. Shapes: row [8].
  static std::uint32_t nonzero_lanes(const std::uint32_t* row) {
    const __m256i zero = _mm256_cmpeq_epi32(load(row), _mm256_setzero_si256());
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(zero))) ^ 0xFF;
  }
  /// A bit for each byte that is 0. Shapes: bytes [64].
  static std::uint64_t zero_bytes(const std::uint8_t* bytes) {
    const auto half = [&](const std::uint8_t* from) {
      return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(from), _mm256_setzero_si256())));
    };
    return half(bytes) | std::uint64_t{half(bytes + 32)} << 32;
  }
};

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END
#endif
