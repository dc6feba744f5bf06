// Digits of wide arithmetic (kernels.hpp) and clamped sums, in registers of AVX-512.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

inline __m512i low_bytes(__m512i a) {
  return _mm512_and_si512(a, _mm512_set1_epi16(0xFF));
}
inline __m512i high_bytes(__m512i a) {
  return _mm512_srli_epi16(a, 8);
}

/// Elements of B minus 2^15, in wide arithmetic.
template <bool kWide>
inline __m512i offset(__m512i b) {
  return kWide ? _mm512_xor_si512(b, _mm512_set1_epi16(static_cast<short>(0x8000))) : b;
}

/// low + 256 * (high + row_sums), clamped. Values: of one run, so that a 256th of it fits 32 bits.
inline __m512i join_digits(__m512i low, __m512i high, __m512i row_sums) {
  constexpr int kOrAnd = 0xF8;  // first | (second & third)
  const __m512i upper = _mm512_add_epi32(_mm512_add_epi32(high, row_sums), _mm512_srai_epi32(low, 8));
  const __m512i sum = _mm512_ternarylogic_epi32(_mm512_slli_epi32(upper, 8), low, _mm512_set1_epi32(0xFF), kOrAnd);
  const __mmask16 is_over = _mm512_cmpge_epu32_mask(upper, _mm512_set1_epi32(1 << 24));
  return _mm512_mask_mov_epi32(sum, is_over, _mm512_set1_epi32(-1));
}

/// Values: no term is negative, so clamped sums may be added in any order.
inline __m512i add_clamped(__m512i sum, __m512i products) {
  const __m512i most = _mm512_xor_si512(sum, _mm512_set1_epi32(-1));  // that fits
  return _mm512_add_epi32(sum, _mm512_min_epu32(products, most));
}

}  // namespace
}  // namespace spmm::cpu
