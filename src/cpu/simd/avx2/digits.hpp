// Digits of wide arithmetic (kernels.hpp) and clamped sums, in registers of AVX2.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

inline __m256i low_bytes(__m256i a) {
  return _mm256_and_si256(a, _mm256_set1_epi16(0xFF));
}
inline __m256i high_bytes(__m256i a) {
  return _mm256_srli_epi16(a, 8);
}
/// Elements of B minus 2^15, in wide arithmetic.
template <bool kWide>
inline __m256i offset(__m256i b) {
  return kWide ? _mm256_xor_si256(b, _mm256_set1_epi16(static_cast<short>(0x8000))) : b;
}

/// low + 256 * (high + row_sums), clamped. Values: of one run, so that a 256th of it fits 32 bits.
inline __m256i join_digits(__m256i low, __m256i high, __m256i row_sums) {
  const __m256i upper = _mm256_add_epi32(_mm256_add_epi32(high, row_sums), _mm256_srai_epi32(low, 8));
  const __m256i lowest = _mm256_and_si256(low, _mm256_set1_epi32(0xFF));
  const __m256i sum = _mm256_or_si256(_mm256_slli_epi32(upper, 8), lowest);
  return _mm256_or_si256(sum, _mm256_cmpgt_epi32(_mm256_srli_epi32(upper, 24), _mm256_setzero_si256()));
}

/// Values: no term is negative, so clamped sums may be added in any order.
inline __m256i add_clamped(__m256i sum, __m256i products) {
  const __m256i most = _mm256_xor_si256(sum, _mm256_set1_epi32(-1));  // that fits
  return _mm256_add_epi32(sum, _mm256_min_epu32(products, most));
}

}  // namespace
}  // namespace spmm::cpu
