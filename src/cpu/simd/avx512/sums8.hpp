// Sums of an 8 x 8 block in registers of AVX-512, for products of single blocks.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// Sums of an 8 x 8 result: rows 0-3 and 4-7, columns 0-3 and 4-7; a lane of 128 bits per row.
struct Sums8 {
  __m512i top_left;
  __m512i top_right;
  __m512i bottom_left;
  __m512i bottom_right;

  void clear() { top_left = top_right = bottom_left = bottom_right = _mm512_setzero_si512(); }

  /// Adds elements 2T, 2T + 1 of every row of A times rows 2T, 2T + 1 of B.
  template <int T>
  void add(__m512i top, __m512i bottom, __m512i left, __m512i right) {
    // The same two elements of A's row to all four columns of its lane.
    const __m512i a_top = _mm512_shuffle_epi32(top, static_cast<_MM_PERM_ENUM>(T * 0x55));
    const __m512i a_bottom = _mm512_shuffle_epi32(bottom, static_cast<_MM_PERM_ENUM>(T * 0x55));
    top_left = _mm512_dpwssd_epi32(top_left, a_top, left);
    top_right = _mm512_dpwssd_epi32(top_right, a_top, right);
    bottom_left = _mm512_dpwssd_epi32(bottom_left, a_bottom, left);
    bottom_right = _mm512_dpwssd_epi32(bottom_right, a_bottom, right);
  }

  /// Sums of rows of 7, without padding: 16 at a time, from the left and the right of the same rows.
  /// Shapes: out [7, 7] u32.
  void store_7(std::byte* out) const {
    const __m512i rows_0_to_2 = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 4, 5, 6, 7, 20, 21, 22, 8, 9);
    const __m512i rows_2_and_3 = _mm512_setr_epi32(10, 11, 24, 25, 26, 12, 13, 14, 15, 28, 29, 30, 0, 0, 0, 0);
    const __m512i row_4 = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3);
    const __m512i rows_4_to_6 = _mm512_setr_epi32(16, 17, 18, 4, 5, 6, 7, 20, 21, 22, 8, 9, 10, 11, 24, 25);
    constexpr __mmask16 kLastFour = 0xF000;
    const __m512i middle = _mm512_permutex2var_epi32(top_left, rows_2_and_3, top_right);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi32(top_left, rows_0_to_2, top_right));
    _mm512_storeu_si512(out + 64, _mm512_mask_permutexvar_epi32(middle, kLastFour, row_4, bottom_left));
    _mm512_storeu_si512(out + 128, _mm512_permutex2var_epi32(bottom_left, rows_4_to_6, bottom_right));
    const int last = _mm_extract_epi32(_mm512_extracti32x4_epi32(bottom_right, 2), 2);
    std::memcpy(out + 192, &last, sizeof last);
  }

  /// Shapes: out [8, 8] u32.
  void store(void* out) const {
    const __m512i rows_even = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i rows_odd = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    auto* const to = static_cast<std::byte*>(out);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(top_left, rows_even, top_right));
    _mm512_storeu_si512(to + 64, _mm512_permutex2var_epi64(top_left, rows_odd, top_right));
    _mm512_storeu_si512(to + 128, _mm512_permutex2var_epi64(bottom_left, rows_even, bottom_right));
    _mm512_storeu_si512(to + 192, _mm512_permutex2var_epi64(bottom_left, rows_odd, bottom_right));
  }

  [[nodiscard]] bool any() const {
    const __m512i bits =
        _mm512_or_si512(_mm512_or_si512(top_left, top_right), _mm512_or_si512(bottom_left, bottom_right));
    return _mm512_test_epi32_mask(bits, bits) != 0;
  }
};

}  // namespace
}  // namespace spmm::cpu
