// The kernels for diagonals for AVX2.
#include "cpu/simd/diagonal_kernel.hpp"

#include "spmm/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <bit>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,popcnt")
#endif

#include "cpu/simd/avx2/element_records.hpp"

namespace spmm::cpu {
namespace {

/// Halves of products are joined within 128 bits, so that lanes are rows 0-3, 8-11; 4-7, 12-15; and so on.
template <bool kSaturates>
class RowSums {
 public:
  void add(const std::uint16_t* a, const std::uint16_t* b) {
    for (std::size_t half = 0; half < 2; ++half) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a) + half);
      const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b) + half);
      const __m256i low = _mm256_mullo_epi16(x, y);
      const __m256i high = _mm256_mulhi_epu16(x, y);
      grow(sums_[2 * half], _mm256_unpacklo_epi16(low, high));
      grow(sums_[2 * half + 1], _mm256_unpackhi_epi16(low, high));
    }
  }
  void rows(std::uint32_t part, Words& out) const {
    const std::size_t at = part / 2 * std::size_t{2};
    const __m256i first = sums_[at];
    const __m256i second = sums_[at + 1];
    out = reinterpret_cast<Words>(part % 2 == 0 ? _mm256_permute2x128_si256(first, second, 0x20)
                                                : _mm256_permute2x128_si256(first, second, 0x31));
  }

 private:
  static void grow(__m256i& sum, __m256i products) {
    sum = _mm256_add_epi32(sum, products);
    if constexpr (kSaturates) {
      const __m256i fits = _mm256_cmpeq_epi32(_mm256_max_epu32(sum, products), sum);
      sum = _mm256_or_si256(sum, _mm256_xor_si256(fits, _mm256_set1_epi32(-1)));
    }
  }

  __m256i sums_[4] = {};
};

std::byte* write_row(std::uint32_t row, const std::uint32_t* offsets, const std::uint32_t* sums, std::uint32_t num_sums,
                     std::byte* out) {
  const __m256i of_row = _mm256_set1_epi32(static_cast<int>(row));
  for (std::uint32_t s = 0; s < num_sums; s += 8) {
    const __m256i offset = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offsets + s));
    const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + s));
    out = store_records(of_row, _mm256_add_epi32(of_row, offset), values, out);
  }
  return out;
}

}  // namespace
}  // namespace spmm::cpu

#include "cpu/simd/diagonal_sums.hpp"

namespace spmm::cpu {

DiagonalKernel avx2_diagonal_kernel() {
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

DiagonalKernel avx2_diagonal_kernel() {
  return {};
}

}  // namespace spmm::cpu

#endif
