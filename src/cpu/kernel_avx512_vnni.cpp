// Multiply kernels for AVX-512 with VNNI: vpdpwssd adds 32 products of 16-bit elements to 16 sums.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/kernels.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include "cpu/c_block_driver.hpp"
#include "cpu/sums8_avx512.hpp"

namespace spmm::cpu {
namespace {

// sum() and run_and_store() are inlined by order: a call for each C block loads all constants anew, and where those
// have one or two pairs that is 3 (side 6) to 8 % (sides 7 and 8) of multiply.

constexpr std::uint32_t kNoRunLimit = 0xFFFF'FFFFu;

inline __m512i low_bytes(__m512i a) {
  return _mm512_and_si512(a, _mm512_set1_epi16(0xFF));
}
inline __m512i high_bytes(__m512i a) {
  return _mm512_srli_epi16(a, 8);
}

/// Side 4: the whole result is one register, a lane of 128 bits per row.
struct Side4 {
  static constexpr std::uint32_t kSide = 4;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = kNoRunLimit;

  /// Values: row_sums are those of A, wide arithmetic only, as high.
  template <bool kWide>
  [[gnu::always_inline]] static void sum(const Operands& x, const PairRef* pairs, std::uint32_t count, __m512i& low,
                                         __m512i& high, __m128i& row_sums) {
    // Lane r takes the two elements 2t, 2t + 1 of row r of A four times.
    const __m512i spread0 = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    const __m512i spread1 = _mm512_add_epi32(spread0, _mm512_set1_epi32(1));
    __m512i low0 = _mm512_setzero_si512();
    __m512i low1 = low0;
    __m512i high0 = low0;
    __m512i high1 = low0;
    row_sums = _mm_setzero_si128();
    for (std::uint32_t p = 0; p < count; ++p) {
      _mm_prefetch(reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * std::size_t{16}), _MM_HINT_T0);
      const std::uint16_t* b = x.b + pairs[p].b * std::size_t{16};
      const __m256i block = _mm256_load_si256(reinterpret_cast<const __m256i*>(x.a + pairs[p].a * std::size_t{16}));
      const __m512i a = _mm512_castsi256_si512(block);
      const __m512i b0 = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(b)));
      const __m512i b1 = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(b + 8)));
      const __m512i a0 = _mm512_permutexvar_epi32(spread0, a);
      const __m512i a1 = _mm512_permutexvar_epi32(spread1, a);
      if constexpr (kWide) {
        low0 = _mm512_dpwssd_epi32(low0, low_bytes(a0), b0);
        low1 = _mm512_dpwssd_epi32(low1, low_bytes(a1), b1);
        high0 = _mm512_dpwssd_epi32(high0, high_bytes(a0), b0);
        high1 = _mm512_dpwssd_epi32(high1, high_bytes(a1), b1);
        const void* sums = x.a_row_sums + pairs[p].a * std::size_t{4};
        row_sums = _mm_add_epi32(row_sums, _mm_load_si128(static_cast<const __m128i*>(sums)));
      } else {
        low0 = _mm512_dpwssd_epi32(low0, a0, b0);
        low1 = _mm512_dpwssd_epi32(low1, a1, b1);
      }
    }
    low = _mm512_add_epi32(low0, low1);
    high = _mm512_add_epi32(high0, high1);
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const Operands& x, const PairRef* pairs, std::uint32_t count, Partial<kMaxRows, kMaxCols>& out) {
    __m512i low;
    __m512i high;
    __m128i row_sums;
    sum<kWide>(x, pairs, count, low, high, row_sums);
    _mm512_store_si512(out.low.data(), low);
    if constexpr (kWide) {
      _mm512_store_si512(out.high.data(), high);
      _mm_store_si128(reinterpret_cast<__m128i*>(out.row_sums.data()), row_sums);
    }
  }

  /// Narrow sums straight into a record; whether one is not zero.
  template <std::uint32_t kM>
  [[gnu::always_inline]] static bool run_and_store(const Operands& x, const PairRef* pairs, std::uint32_t count,
                                                   std::byte* out) {
    static_assert(kM == kSide);
    __m512i sums;
    __m512i unused;
    __m128i unused_sums;
    sum<false>(x, pairs, count, sums, unused, unused_sums);
    _mm512_storeu_si512(out, sums);
    return _mm512_test_epi32_mask(sums, sums) != 0;
  }
};

/// Four consecutive pairs of rows of B, repeated in every lane. Shapes: b [4, 2] of an interleaved row.
inline __m512i repeat_columns(const std::uint16_t* b) {
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(b)));
}

/// Side 8: four registers of sums, each element of A shuffled once for all columns.
struct Side8 {
  static constexpr std::uint32_t kSide = 8;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = kNoRunLimit;

  template <bool kWide, int T>
  static void step(Sums8& low, Sums8& high, __m512i top, __m512i bottom, const std::uint16_t* b) {
    const __m512i left = repeat_columns(b + 16 * T);
    const __m512i right = repeat_columns(b + 16 * T + 8);
    if constexpr (kWide) {
      low.add<T>(low_bytes(top), low_bytes(bottom), left, right);
      high.add<T>(high_bytes(top), high_bytes(bottom), left, right);
    } else {
      low.add<T>(top, bottom, left, right);
    }
  }

  /// Values: row_sums are those of A, wide arithmetic only, as high.
  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static void sum(const Operands& x, const PairRef* pairs, std::uint32_t count, Sums8& low,
                                         Sums8& high, __m256i& row_sums) {
    low.clear();
    high.clear();
    row_sums = _mm256_setzero_si256();
    for (std::uint32_t p = 0; p < count; ++p) {
      const char* ahead = reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * std::size_t{64});
      _mm_prefetch(ahead, _MM_HINT_T0);
      _mm_prefetch(ahead + 64, _MM_HINT_T0);
      const std::uint16_t* a = x.a + pairs[p].a * std::size_t{64};
      const std::uint16_t* b = x.b + pairs[p].b * std::size_t{64};
      const __m512i top = _mm512_load_si512(a);
      const __m512i bottom = _mm512_load_si512(a + 32);
      step<kWide, 0>(low, high, top, bottom, b);
      step<kWide, 1>(low, high, top, bottom, b);
      step<kWide, 2>(low, high, top, bottom, b);
      if constexpr (kM > 6) step<kWide, 3>(low, high, top, bottom, b);
      if constexpr (kWide) {
        const void* sums = x.a_row_sums + pairs[p].a * std::size_t{8};
        row_sums = _mm256_add_epi32(row_sums, _mm256_load_si256(static_cast<const __m256i*>(sums)));
      }
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const Operands& x, const PairRef* pairs, std::uint32_t count, Partial<kMaxRows, kMaxCols>& out) {
    Sums8 low;
    Sums8 high;
    __m256i row_sums;
    sum<kWide, kM>(x, pairs, count, low, high, row_sums);
    low.store(out.low.data());
    if constexpr (kWide) {
      high.store(out.high.data());
      _mm256_store_si256(reinterpret_cast<__m256i*>(out.row_sums.data()), row_sums);
    }
  }

  /// Narrow sums straight into a record; whether one is not zero.
  template <std::uint32_t kM>
  [[gnu::always_inline]] static bool run_and_store(const Operands& x, const PairRef* pairs, std::uint32_t count,
                                                   std::byte* out) {
    static_assert(kM == 7 || kM == 8);
    Sums8 sums;
    Sums8 unused;
    __m256i unused_sums;
    sum<false, kM>(x, pairs, count, sums, unused, unused_sums);
    kM == 7 ? sums.store_7(out) : sums.store(out);
    return sums.any();
  }
};

/// Sides 5 and 6 in blocks padded to 8: two rows of the result in a register, nothing of rows 6 and 7.
struct Side6 {
  static constexpr std::uint32_t kSide = 8;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = kNoRunLimit;
  static constexpr std::uint32_t kRowPairs = 3;

  /// Elements 2T, 2T + 1 of two rows of A, each for all columns of its half. Values: first = 4 times the upper row.
  static __m512i spread(__m512i a, int first, int t) {
    const __m512i upper_and_lower = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4);
    return _mm512_permutexvar_epi32(_mm512_add_epi32(upper_and_lower, _mm512_set1_epi32(first + t)), a);
  }

  /// Sums of rows 2r, 2r + 1. Shapes: low, high [kRowPairs].
  template <bool kWide>
  [[gnu::always_inline]] static void sum(const Operands& x, const PairRef* pairs, std::uint32_t count, __m512i* low,
                                         __m512i* high) {
    for (std::uint32_t r = 0; r < kRowPairs; ++r) low[r] = high[r] = _mm512_setzero_si512();
    for (std::uint32_t p = 0; p < count; ++p) {
      const char* ahead = reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * std::size_t{64});
      _mm_prefetch(ahead, _MM_HINT_T0);
      _mm_prefetch(ahead + 64, _MM_HINT_T0);
      const std::uint16_t* a = x.a + pairs[p].a * std::size_t{64};
      const std::uint16_t* b = x.b + pairs[p].b * std::size_t{64};
      const __m512i top = _mm512_load_si512(a);
      const __m512i bottom = _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(a + 32)));
      for (int t = 0; t < 3; ++t) {
        const __m512i columns = _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(b + 16 * t)));
        const __m512i rows[kRowPairs] = {spread(top, 0, t), spread(top, 8, t), spread(bottom, 0, t)};
        for (std::uint32_t r = 0; r < kRowPairs; ++r) {
          if constexpr (kWide) {
            low[r] = _mm512_dpwssd_epi32(low[r], low_bytes(rows[r]), columns);
            high[r] = _mm512_dpwssd_epi32(high[r], high_bytes(rows[r]), columns);
          } else {
            low[r] = _mm512_dpwssd_epi32(low[r], rows[r], columns);
          }
        }
      }
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const Operands& x, const PairRef* pairs, std::uint32_t count, Partial<kMaxRows, kMaxCols>& out) {
    __m512i low[kRowPairs];
    __m512i high[kRowPairs];
    sum<kWide>(x, pairs, count, low, high);
    for (std::uint32_t r = 0; r < kRowPairs; ++r) {
      _mm512_store_si512(out.low.data() + 16 * r, low[r]);
      if constexpr (kWide) _mm512_store_si512(out.high.data() + 16 * r, high[r]);
    }
    if constexpr (kWide) sum_rows(x, pairs, count, kSide, out.row_sums.data());
  }

  /// Narrow sums straight into a record; whether one is not zero.
  template <std::uint32_t kM>
  [[gnu::always_inline]] static bool run_and_store(const Operands& x, const PairRef* pairs, std::uint32_t count,
                                                   std::byte* out) {
    static_assert(kM == 5 || kM == 6);
    __m512i rows[kRowPairs];
    __m512i unused[kRowPairs];
    sum<false>(x, pairs, count, rows, unused);
    const auto row = [&](std::uint32_t r) {
      return r % 2 == 0 ? _mm512_castsi512_si256(rows[r / 2]) : _mm512_extracti64x4_epi64(rows[r / 2], 1);
    };
    const auto store = [&](std::uint32_t r) {  // the next row overwrites the padding
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + r * kM * sizeof(std::uint32_t)), row(r));
    };
    store(0);
    store(1);
    store(2);
    store(3);
    if constexpr (kM == 6) store(4);
    std::byte* const last = out + (kM - 1) * kM * sizeof(std::uint32_t);
    const __m256i last_row = row(kM - 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(last), _mm256_castsi256_si128(last_row));
    const __m128i tail = _mm256_extracti128_si256(last_row, 1);
    if constexpr (kM == 5) {
      const int value = _mm_cvtsi128_si32(tail);
      std::memcpy(last + 16, &value, sizeof value);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(last + 16), tail);
    }
    const __m512i any = _mm512_or_si512(_mm512_or_si512(rows[0], rows[1]), rows[2]);
    return _mm512_test_epi32_mask(any, any) != 0;
  }
};

/// Any larger side: strips of 8 rows and 16 columns.
struct Strips {
  static constexpr std::uint32_t kSide = 0;
  static constexpr std::uint32_t kMaxRows = kMaxBlockDim;
  static constexpr std::uint32_t kMaxCols = kMaxBlockDim;
  static constexpr std::uint32_t kRunPairs = 16;  // blocks of one run stay in the second-level cache for all strips
  static constexpr std::uint32_t kStripRows = 8;
  static constexpr std::uint32_t kStripCols = 16;

  template <bool kWide>
  static void run_strip(const Operands& x, const PairRef* pairs, std::uint32_t count, std::uint32_t row,
                        std::uint32_t col, std::uint32_t* out_low, std::uint32_t* out_high) {
    const PackedShape& shape = x.shape;
    __m512i low[kStripRows];
    __m512i high[kStripRows];
    for (std::uint32_t r = 0; r < kStripRows; ++r) low[r] = high[r] = _mm512_setzero_si512();
    for (std::uint32_t p = 0; p < count; ++p) {
      const std::uint16_t* a = x.a + pairs[p].a * shape.a_elements() + row * shape.inner;
      const std::uint16_t* b = x.b + pairs[p].b * shape.b_elements() + col * 2;
      for (std::uint32_t t = 0; t < shape.inner; t += 2) {
        const __m512i b_pair = _mm512_load_si512(b + t * shape.cols);
        for (std::uint32_t r = 0; r < kStripRows; ++r) {
          std::int32_t two_elements;
          std::memcpy(&two_elements, a + r * shape.inner + t, sizeof two_elements);
          const __m512i a_pair = _mm512_set1_epi32(two_elements);
          if constexpr (kWide) {
            low[r] = _mm512_dpwssd_epi32(low[r], low_bytes(a_pair), b_pair);
            high[r] = _mm512_dpwssd_epi32(high[r], high_bytes(a_pair), b_pair);
          } else {
            low[r] = _mm512_dpwssd_epi32(low[r], a_pair, b_pair);
          }
        }
      }
    }
    for (std::uint32_t r = 0; r < kStripRows; ++r) {
      _mm512_store_si512(out_low + r * shape.cols, low[r]);
      if constexpr (kWide) _mm512_store_si512(out_high + r * shape.cols, high[r]);
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const Operands& x, const PairRef* pairs, std::uint32_t count, Partial<kMaxRows, kMaxCols>& out) {
    const PackedShape& shape = x.shape;
    for (std::uint32_t row = 0; row < shape.rows; row += kStripRows) {
      for (std::uint32_t col = 0; col < shape.cols; col += kStripCols) {
        const std::uint32_t at = row * shape.cols + col;
        run_strip<kWide>(x, pairs, count, row, col, out.low.data() + at, out.high.data() + at);
      }
    }
    if constexpr (kWide) sum_rows(x, pairs, count, shape.rows, out.row_sums.data());
  }
};

}  // namespace

MultiplyCBlocks avx512_vnni_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  return pick_kernel<Side4, Side6, Side8, Strips>(shape, arithmetic);
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace spmm::cpu {

bool avx512_vnni_available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace spmm::cpu

#else  // another machine: never available

namespace spmm::cpu {

bool avx512_vnni_available() {
  return false;
}
MultiplyCBlocks avx512_vnni_kernel(const PackedShape&, const Arithmetic&) {
  return nullptr;
}

}  // namespace spmm::cpu

#endif
