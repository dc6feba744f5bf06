// The kernels for diagonals for AVX-512.
#include "cpu/simd/diagonal_kernel.hpp"

#include "spmm/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi,prefer-vector-width=512")
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include "cpu/simd/avx512/element_stage.hpp"

namespace spmm::cpu {
namespace {

/// Halves of products are joined within 128 bits, so that lanes are rows 0-3, 8-11, 16-19, 24-27; and the others.
template <bool kSaturates>
class RowSums {
 public:
  RowSums() : first_(_mm512_setzero_si512()), second_(first_) {}

  void add(const std::uint16_t* a, const std::uint16_t* b) {
    const __m512i x = _mm512_loadu_si512(a);
    const __m512i y = _mm512_loadu_si512(b);
    const __m512i low = _mm512_mullo_epi16(x, y);
    const __m512i high = _mm512_mulhi_epu16(x, y);
    grow(first_, _mm512_unpacklo_epi16(low, high));
    grow(second_, _mm512_unpackhi_epi16(low, high));
  }
  void rows(std::uint32_t part, Words& out) const {
    const __m512i order = _mm512_add_epi64(_mm512_setr_epi64(0, 1, 8, 9, 0, 0, 0, 0), _mm512_set1_epi64(2 * part));
    out = reinterpret_cast<Words>(_mm512_castsi512_si256(_mm512_permutex2var_epi64(first_, order, second_)));
  }

 private:
  static void grow(__m512i& sum, __m512i products) {
    sum = _mm512_add_epi32(sum, products);
    if constexpr (kSaturates) sum = _mm512_mask_set1_epi32(sum, _mm512_cmplt_epu32_mask(sum, products), -1);
  }

  __m512i first_;
  __m512i second_;
};

std::byte* write_row(std::uint32_t row, const std::uint32_t* offsets, const std::uint32_t* sums, std::uint32_t num_sums,
                     std::byte* out) {
  const __m512i of_row = _mm512_set1_epi32(static_cast<int>(row));
  ElementStage stage(row, out);
  for (std::uint32_t s = 0; s < num_sums; s += 16) {
    const __m512i values = _mm512_load_si512(sums + s);
    stage.add(_mm512_add_epi32(of_row, _mm512_loadu_si512(offsets + s)), values,
              _mm512_test_epi32_mask(values, values));
  }
  return stage.finish();
}

}  // namespace
}  // namespace spmm::cpu

#include "cpu/simd/diagonal_sums.hpp"

namespace spmm::cpu {

DiagonalKernel avx512_diagonal_kernel() {
  return kernel_of_diagonals();
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

DiagonalKernel avx512_diagonal_kernel() {
  return {};
}

}  // namespace spmm::cpu

#endif
