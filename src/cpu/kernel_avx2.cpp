// Multiply kernels for AVX2: vpmaddwd makes 8 sums of two products of 16-bit elements.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/kernels.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#include "cpu/c_block_driver.hpp"

namespace spmm::cpu {
namespace {

inline __m256i low_bytes(__m256i a) {
  return _mm256_and_si256(a, _mm256_set1_epi16(0xFF));
}
inline __m256i high_bytes(__m256i a) {
  return _mm256_srli_epi16(a, 8);
}
inline __m256i add_products(__m256i sums, __m256i a, __m256i b) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}

/// Side 4: two registers of sums, a lane of 128 bits per row.
struct Side4 {
  static constexpr std::uint32_t kSide = 4;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = 0xFFFF'FFFFu;

  template <bool kWide, std::uint32_t kM>
  static void run(const Operands& x, const PairRef* pairs, std::uint32_t count, Partial<kMaxRows, kMaxCols>& out) {
    // The lane of row r takes the two elements 2t, 2t + 1 of that row of A four times.
    const __m256i first = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
    __m256i low[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m128i row_sums = _mm_setzero_si128();
    for (std::uint32_t p = 0; p < count; ++p) {
      _mm_prefetch(reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * std::size_t{16}), _MM_HINT_T0);
      const auto* b = reinterpret_cast<const __m128i*>(x.b + pairs[p].b * std::size_t{16});
      const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(x.a + pairs[p].a * std::size_t{16}));
      for (int t = 0; t < 2; ++t) {
        const __m256i b_pair = _mm256_broadcastsi128_si256(_mm_load_si128(b + t));
        for (std::size_t half = 0; half < 2; ++half) {
          const __m256i lanes = _mm256_add_epi32(first, _mm256_set1_epi32(static_cast<int>(4 * half) + t));
          const __m256i a_pair = _mm256_permutevar8x32_epi32(a, lanes);
          if constexpr (kWide) {
            low[half] = add_products(low[half], low_bytes(a_pair), b_pair);
            high[half] = add_products(high[half], high_bytes(a_pair), b_pair);
          } else {
            low[half] = add_products(low[half], a_pair, b_pair);
          }
        }
      }
      if constexpr (kWide) {
        const void* sums = x.a_row_sums + pairs[p].a * std::size_t{4};
        row_sums = _mm_add_epi32(row_sums, _mm_load_si128(static_cast<const __m128i*>(sums)));
      }
    }
    for (std::size_t half = 0; half < 2; ++half) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(out.low.data() + 8 * half), low[half]);
      if constexpr (kWide) _mm256_store_si256(reinterpret_cast<__m256i*>(out.high.data() + 8 * half), high[half]);
    }
    if constexpr (kWide) _mm_store_si128(reinterpret_cast<__m128i*>(out.row_sums.data()), row_sums);
  }
};

/// Strips of 4 rows and 8 columns; kConstantSide = the padded side where it is known when compiling, else 0.
template <std::uint32_t kConstantSide>
struct Strips {
  static constexpr std::uint32_t kSide = kConstantSide;
  static constexpr std::uint32_t kMaxRows = kSide != 0 ? kSide : kMaxBlockDim;
  static constexpr std::uint32_t kMaxCols = kMaxRows;
  static constexpr std::uint32_t kRunPairs = kSide != 0 ? 64 : 16;  // blocks of one run stay in cache for all strips
  static constexpr std::uint32_t kStripRows = 4;
  static constexpr std::uint32_t kStripCols = 8;

  template <bool kWide, std::uint32_t kM, std::uint32_t kRows>
  static void run_strip(const Operands& x, const PairRef* pairs, std::uint32_t count, std::uint32_t row,
                        std::uint32_t col, std::uint32_t* out_low, std::uint32_t* out_high) {
    const std::uint32_t inner = kSide != 0 ? kSide : x.shape.inner;
    const std::uint32_t used_inner = kM != 0 ? kM : inner;  // what follows is padding
    const std::uint32_t cols = kSide != 0 ? kSide : x.shape.cols;
    const std::size_t a_stride = kSide != 0 ? std::size_t{kSide} * kSide : x.shape.a_elements();
    const std::size_t b_stride = kSide != 0 ? std::size_t{kSide} * kSide : x.shape.b_elements();
    __m256i low[kRows];
    __m256i high[kRows];
    for (std::uint32_t r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
    for (std::uint32_t p = 0; p < count; ++p) {
      _mm_prefetch(reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * b_stride), _MM_HINT_T0);
      const std::uint16_t* a = x.a + pairs[p].a * a_stride + row * inner;
      const std::uint16_t* b = x.b + pairs[p].b * b_stride + col * 2;
      for (std::uint32_t t = 0; t < used_inner; t += 2) {
        const __m256i b_pair = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + t * cols));
        for (std::uint32_t r = 0; r < kRows; ++r) {
          std::int32_t two_elements;
          std::memcpy(&two_elements, a + r * inner + t, sizeof two_elements);
          const __m256i a_pair = _mm256_set1_epi32(two_elements);
          if constexpr (kWide) {
            low[r] = add_products(low[r], low_bytes(a_pair), b_pair);
            high[r] = add_products(high[r], high_bytes(a_pair), b_pair);
          } else {
            low[r] = add_products(low[r], a_pair, b_pair);
          }
        }
      }
    }
    for (std::uint32_t r = 0; r < kRows; ++r) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(out_low + r * cols), low[r]);
      if constexpr (kWide) _mm256_store_si256(reinterpret_cast<__m256i*>(out_high + r * cols), high[r]);
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const Operands& x, const PairRef* pairs, std::uint32_t count, Partial<kMaxRows, kMaxCols>& out) {
    const std::uint32_t rows = kSide != 0 ? kSide : x.shape.rows;
    const std::uint32_t cols = kSide != 0 ? kSide : x.shape.cols;
    if constexpr (kM > kStripRows) {  // one strip of columns; rows that are padding are left out
      static_assert(kM <= 2 * kStripRows);
      run_strip<kWide, kM, kStripRows>(x, pairs, count, 0, 0, out.low.data(), out.high.data());
      constexpr std::uint32_t kAt = kStripRows * kStripCols;
      run_strip<kWide, kM, kM - kStripRows>(x, pairs, count, kStripRows, 0, out.low.data() + kAt,
                                            out.high.data() + kAt);
      if constexpr (kWide) sum_rows(x, pairs, count, rows, out.row_sums.data());
      return;
    }
    for (std::uint32_t row = 0; row < rows; row += kStripRows) {
      for (std::uint32_t col = 0; col < cols; col += kStripCols) {
        const std::uint32_t at = row * cols + col;
        run_strip<kWide, kM, kStripRows>(x, pairs, count, row, col, out.low.data() + at, out.high.data() + at);
      }
    }
    if constexpr (kWide) sum_rows(x, pairs, count, rows, out.row_sums.data());
  }
};

}  // namespace

MultiplyCBlocks avx2_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  return pick_kernel<Side4, Strips<8>, Strips<8>, Strips<0>>(shape, arithmetic);
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace spmm::cpu {

bool avx2_available() {
  return __builtin_cpu_supports("avx2");
}

}  // namespace spmm::cpu

#else  // another machine: never available

namespace spmm::cpu {

bool avx2_available() {
  return false;
}
MultiplyCBlocks avx2_kernel(const PackedShape&, const Arithmetic&) {
  return nullptr;
}

}  // namespace spmm::cpu

#endif
