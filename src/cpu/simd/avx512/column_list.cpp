// Lists of columns for AVX-512: 16 counters at a time.
#include "cpu/simd/column_list.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,popcnt,prefer-vector-width=512")
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spmm::cpu {
namespace {

constexpr std::uint32_t kLanes = 16;

/// Each lane plus all lanes before it.
inline __m512i sum_up(__m512i counts) {
  const __m512i zero = _mm512_setzero_si512();
  __m512i sums = _mm512_add_epi32(counts, _mm512_alignr_epi32(counts, zero, 15));
  sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 14));
  sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 12));
  return _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 8));
}

std::uint32_t list_columns(std::uint32_t* position, std::uint32_t num_columns, CBlock* c_blocks) {
  static_assert(sizeof(CBlock) == 2 * sizeof(std::uint32_t) && kCBlocksAhead >= kLanes);
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i first_8 = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i last_8 = _mm512_add_epi32(first_8, _mm512_set1_epi32(8));
  const __m512i last_lane = _mm512_set1_epi32(kLanes - 1);
  __m512i before = _mm512_setzero_si512();  // pairs of all columns so far
  std::uint32_t num_c_blocks = 0;
  for (std::uint32_t col = 0; col < num_columns; col += kLanes) {
    const auto valid = static_cast<__mmask16>((1u << std::min(kLanes, num_columns - col)) - 1);
    const __m512i counts = _mm512_maskz_loadu_epi32(valid, position + col);
    const __mmask16 occurs = _mm512_test_epi32_mask(counts, counts);
    const __m512i ends = _mm512_add_epi32(before, sum_up(counts));
    _mm512_mask_storeu_epi32(position + col, valid, _mm512_sub_epi32(ends, counts));
    before = _mm512_permutexvar_epi32(last_lane, ends);
    const __m512i cols = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(col)));
    const __m512i of_c_blocks = _mm512_maskz_compress_epi32(occurs, cols);
    const __m512i ends_of_c_blocks = _mm512_maskz_compress_epi32(occurs, ends);
    CBlock* const out = c_blocks + num_c_blocks;  // lanes without a column are overwritten
    _mm512_storeu_si512(out, _mm512_permutex2var_epi32(of_c_blocks, first_8, ends_of_c_blocks));
    _mm512_storeu_si512(out + 8, _mm512_permutex2var_epi32(of_c_blocks, last_8, ends_of_c_blocks));
    num_c_blocks += static_cast<std::uint32_t>(__builtin_popcount(occurs));
  }
  return num_c_blocks;
}

}  // namespace

ColumnLister avx512_lister() {
  return {.list = list_columns, .columns_per_pair = 16};
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

ColumnLister avx512_lister() {
  return portable_lister();
}

}  // namespace spmm::cpu

#endif
