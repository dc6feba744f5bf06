// Multiply kernels for AVX-512 with VNNI: vpdpwssd adds 32 products of 16-bit elements to 16 sums.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/simd/kernels.hpp"
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

#include "cpu/simd/avx512/digits.hpp"
#include "cpu/simd/avx512/sums8.hpp"
#include "cpu/simd/c_block_driver.hpp"

namespace spmm::cpu {
namespace {

// sum() and run_and_store() are inlined by order: a call for each C block loads all constants anew, and where those
// have one or two pairs that is 3 (side 6) to 8 % (sides 7 and 8) of multiply.

constexpr std::uint32_t kNoRunLimit = 0xFFFF'FFFFu;

/// Side 4: the whole result is one register, a lane of 128 bits per row.
struct Side4 {
  static constexpr std::uint32_t kSide = 4;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = kNoRunLimit;

  template <bool kWide>
  [[gnu::always_inline]] static __m512i sum(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count) {
    // Lane r takes the two elements 2t, 2t + 1 of row r of A four times.
    const __m512i spread0 = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
    const __m512i spread1 = _mm512_add_epi32(spread0, _mm512_set1_epi32(1));
    __m512i low0 = _mm512_setzero_si512();
    __m512i low1 = low0;
    __m512i high0 = low0;
    __m512i high1 = low0;
    __m128i row_sums = _mm_setzero_si128();
    for (std::uint32_t p = 0; p < count; ++p) {
      _mm_prefetch(reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * std::size_t{16}), _MM_HINT_T0);
      const std::uint16_t* b = x.b + pairs[p].b * std::size_t{16};
      const __m256i block = _mm256_load_si256(reinterpret_cast<const __m256i*>(x.a + pairs[p].a * std::size_t{16}));
      const __m512i a = _mm512_castsi256_si512(block);
      const __m512i b0 = offset<kWide>(_mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(b))));
      const __m512i b1 = offset<kWide>(_mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(b + 8))));
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
    const __m512i low = _mm512_add_epi32(low0, low1);
    if constexpr (!kWide) return low;
    const __m512i rows = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i of_rows = _mm512_permutexvar_epi32(rows, _mm512_castsi128_si512(_mm_slli_epi32(row_sums, 7)));
    return join_digits(low, _mm512_add_epi32(high0, high1), of_rows);
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    _mm512_store_si512(out, sum<kWide>(x, pairs, count));
  }

  /// Sums straight into a record; whether one is not zero.
  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static bool run_and_store(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                                   std::byte* out) {
    static_assert(kM == kSide);
    const __m512i sums = sum<kWide>(x, pairs, count);
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
    const __m512i left = offset<kWide>(repeat_columns(b + 16 * T));
    const __m512i right = offset<kWide>(repeat_columns(b + 16 * T + 8));
    if constexpr (kWide) {
      low.add<T>(low_bytes(top), low_bytes(bottom), left, right);
      high.add<T>(high_bytes(top), high_bytes(bottom), left, right);
    } else {
      low.add<T>(top, bottom, left, right);
    }
  }

  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static Sums8 sum(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count) {
    Sums8 low;
    Sums8 high;
    low.clear();
    high.clear();
    __m256i row_sums = _mm256_setzero_si256();
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
    if constexpr (!kWide) return low;
    const __m512i rows = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i shifted = _mm512_castsi256_si512(_mm256_slli_epi32(row_sums, 7));
    const __m512i of_top = _mm512_permutexvar_epi32(rows, shifted);
    const __m512i of_bottom = _mm512_permutexvar_epi32(_mm512_add_epi32(rows, _mm512_set1_epi32(4)), shifted);
    return {.top_left = join_digits(low.top_left, high.top_left, of_top),
            .top_right = join_digits(low.top_right, high.top_right, of_top),
            .bottom_left = join_digits(low.bottom_left, high.bottom_left, of_bottom),
            .bottom_right = join_digits(low.bottom_right, high.bottom_right, of_bottom)};
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    sum<kWide, kM>(x, pairs, count).store(out);
  }

  /// Sums straight into a record; whether one is not zero.
  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static bool run_and_store(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                                   std::byte* out) {
    static_assert(kM == 7 || kM == 8);
    const Sums8 sums = sum<kWide, kM>(x, pairs, count);
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

  /// Sums of rows 2r, 2r + 1. Shapes: out [kRowPairs].
  template <bool kWide>
  [[gnu::always_inline]] static void sum(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                         __m512i* out) {
    __m512i high[kRowPairs];
    __m256i row_sums = _mm256_setzero_si256();
    for (std::uint32_t r = 0; r < kRowPairs; ++r) out[r] = high[r] = _mm512_setzero_si512();
    for (std::uint32_t p = 0; p < count; ++p) {
      const char* ahead = reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * std::size_t{64});
      _mm_prefetch(ahead, _MM_HINT_T0);
      _mm_prefetch(ahead + 64, _MM_HINT_T0);
      const std::uint16_t* a = x.a + pairs[p].a * std::size_t{64};
      const std::uint16_t* b = x.b + pairs[p].b * std::size_t{64};
      const __m512i top = _mm512_load_si512(a);
      const __m512i bottom = _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(a + 32)));
      for (int t = 0; t < 3; ++t) {
        const auto* of_b = reinterpret_cast<const __m256i*>(b + 16 * t);
        const __m512i columns = offset<kWide>(_mm512_broadcast_i64x4(_mm256_load_si256(of_b)));
        const __m512i rows[kRowPairs] = {spread(top, 0, t), spread(top, 8, t), spread(bottom, 0, t)};
        for (std::uint32_t r = 0; r < kRowPairs; ++r) {
          if constexpr (kWide) {
            out[r] = _mm512_dpwssd_epi32(out[r], low_bytes(rows[r]), columns);
            high[r] = _mm512_dpwssd_epi32(high[r], high_bytes(rows[r]), columns);
          } else {
            out[r] = _mm512_dpwssd_epi32(out[r], rows[r], columns);
          }
        }
      }
      if constexpr (kWide) {
        const void* sums = x.a_row_sums + pairs[p].a * std::size_t{8};
        row_sums = _mm256_add_epi32(row_sums, _mm256_load_si256(static_cast<const __m256i*>(sums)));
      }
    }
    if constexpr (!kWide) return;
    const __m512i shifted = _mm512_castsi256_si512(_mm256_slli_epi32(row_sums, 7));
    for (std::uint32_t r = 0; r < kRowPairs; ++r) {
      const __m512i two_rows = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
      const __m512i from = _mm512_add_epi32(two_rows, _mm512_set1_epi32(static_cast<int>(2 * r)));
      out[r] = join_digits(out[r], high[r], _mm512_permutexvar_epi32(from, shifted));
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    __m512i rows[kRowPairs];
    sum<kWide>(x, pairs, count, rows);
    for (std::uint32_t r = 0; r < kRowPairs; ++r) _mm512_store_si512(out + 16 * r, rows[r]);
  }

  /// Sums straight into a record; whether one is not zero.
  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static bool run_and_store(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                                   std::byte* out) {
    static_assert(kM == 5 || kM == 6);
    __m512i rows[kRowPairs];
    sum<kWide>(x, pairs, count, rows);
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

/// 16 columns of B or of sums.
struct Columns16 {
  using Register = __m512i;
  static constexpr std::uint32_t kCount = 16;
  static Register zero() { return _mm512_setzero_si512(); }
  static Register load(const std::uint16_t* b) { return _mm512_loadu_si512(b); }
  static Register load_offset(const std::uint16_t* b) { return offset<true>(load(b)); }
  static Register spread(std::int32_t value) { return _mm512_set1_epi32(value); }
  static Register low_digits(Register a) { return low_bytes(a); }
  static Register high_digits(Register a) { return high_bytes(a); }
  static Register add_products(Register sum, Register b, Register a) { return _mm512_dpwssd_epi32(sum, b, a); }
  static Register join(Register low, Register high, Register row_sums) { return join_digits(low, high, row_sums); }
  static void store(std::uint32_t* out, Register sum) { _mm512_storeu_si512(out, sum); }
};

/// 8 columns: the last ones of a block.
struct Columns8 {
  using Register = __m256i;
  static constexpr std::uint32_t kCount = 8;
  static Register zero() { return _mm256_setzero_si256(); }
  static Register load(const std::uint16_t* b) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)); }
  static Register load_offset(const std::uint16_t* b) {
    return _mm256_xor_si256(load(b), _mm256_set1_epi16(static_cast<short>(0x8000)));
  }
  static Register spread(std::int32_t value) { return _mm256_set1_epi32(value); }
  static Register low_digits(Register a) { return _mm256_and_si256(a, _mm256_set1_epi16(0xFF)); }
  static Register high_digits(Register a) { return _mm256_srli_epi16(a, 8); }
  static Register add_products(Register sum, Register b, Register a) { return _mm256_dpwssd_epi32(sum, b, a); }
  static Register join(Register low, Register high, Register row_sums) {
    return _mm512_castsi512_si256(
        join_digits(_mm512_castsi256_si512(low), _mm512_castsi256_si512(high), _mm512_castsi256_si512(row_sums)));
  }
  static void store(std::uint32_t* out, Register sum) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), sum); }
};

/// Any larger side: strips of up to 8 rows, as equal as can be, and 16 or 8 columns.
/// Values: kConstantSide = the padded columns where they are known when compiling, else 0.
template <std::uint32_t kConstantSide>
struct Strips {
  static constexpr std::uint32_t kSide = kConstantSide;
  static constexpr std::uint32_t kMaxRows = kSide != 0 ? kSide : kMaxBlockDim;
  static constexpr std::uint32_t kMaxCols = kMaxRows;
  static constexpr std::uint32_t kRunPairs = 16;  // blocks of one run stay in the second-level cache for all strips
  static constexpr std::uint32_t kMaxStripRows = 8;

  /// Where a strip lies in a block.
  struct StripCorner {
    std::uint32_t row;
    std::uint32_t col;
  };

  template <bool kWide, class Columns, std::uint32_t kM, std::uint32_t kRows>
  static void run_strip(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, const StripCorner& place,
                        const std::uint32_t* row_sums, std::uint32_t* out) {
    using Register = typename Columns::Register;
    const std::size_t inner = kM != 0 ? (kM + 1) / 2 * 2 : x.shape.inner;
    const std::size_t cols = kM != 0 ? kSide : x.shape.cols;
    const std::size_t a_stride = kM != 0 ? kSide * inner : x.shape.a_elements();
    const std::size_t b_stride = inner * cols;
    const bool is_first = place.row == 0 && place.col == 0;
    const BlocksAhead ahead(x, b_stride * sizeof(std::uint16_t));
    Register low[kRows];
    Register high[kRows];
#pragma GCC unroll 8
    for (std::uint32_t r = 0; r < kRows; ++r) low[r] = high[r] = Columns::zero();
    for (std::uint32_t p = 0; p < count; ++p) {
      if (is_first) ahead.fetch(pairs + p);
      const std::uint16_t* a = x.a + pairs[p].a * a_stride + place.row * inner;
      const std::uint16_t* b = x.b + pairs[p].b * b_stride + place.col * 2;
#pragma GCC unroll 1
      for (std::size_t t = 0; t < inner; t += 2) {
        const std::uint16_t* const of_b = b + t * cols;
        const Register b_pair = kWide ? Columns::load_offset(of_b) : Columns::load(of_b);
#pragma GCC unroll 8
        for (std::uint32_t r = 0; r < kRows; ++r) {
          const Register a_pair = Columns::spread(two_elements(a + r * inner + t));
          if constexpr (kWide) {
            low[r] = Columns::add_products(low[r], b_pair, Columns::low_digits(a_pair));
            high[r] = Columns::add_products(high[r], b_pair, Columns::high_digits(a_pair));
          } else {
            low[r] = Columns::add_products(low[r], b_pair, a_pair);
          }
        }
      }
    }
    for (std::uint32_t r = 0; r < kRows; ++r) {
      if constexpr (kWide) {
        low[r] = Columns::join(low[r], high[r], Columns::spread(static_cast<std::int32_t>(row_sums[place.row + r])));
      }
      Columns::store(out + (place.row + r) * cols + place.col, low[r]);
    }
  }

  /// A strip of so many rows.
  template <bool kWide, class Columns>
  static void run_rows(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t num_rows,
                       const StripCorner& place, const std::uint32_t* row_sums, std::uint32_t* out) {
    switch (num_rows) {
      case 4:
        return run_strip<kWide, Columns, 0, 4>(x, pairs, count, place, row_sums, out);
      case 5:
        return run_strip<kWide, Columns, 0, 5>(x, pairs, count, place, row_sums, out);
      case 6:
        return run_strip<kWide, Columns, 0, 6>(x, pairs, count, place, row_sums, out);
      case 7:
        return run_strip<kWide, Columns, 0, 7>(x, pairs, count, place, row_sums, out);
      default:  // half of what kMaxStripRows divides with a remainder of 1 is 4
        return run_strip<kWide, Columns, 0, 8>(x, pairs, count, place, row_sums, out);
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    const PackedShape& shape = x.shape;
    alignas(64) std::array<std::uint32_t, kMaxRows> row_sums;
    if constexpr (kWide) sum_rows(x, pairs, count, shape.rows, row_sums.data());
    if constexpr (kM != 0 && !kWide) {  // wide sums gain nothing by constants
      static_assert(kM > kMaxStripRows && kM <= 2 * kMaxStripRows && kSide == Columns16::kCount);
      constexpr std::uint32_t kUpper = (kM + 1) / 2;
      run_strip<kWide, Columns16, kM, kUpper>(x, pairs, count, {.row = 0, .col = 0}, row_sums.data(), out);
      run_strip<kWide, Columns16, kM, kM - kUpper>(x, pairs, count, {.row = kUpper, .col = 0}, row_sums.data(), out);
      return;
    }
    const std::uint32_t num_strips = (shape.m - 1) / kMaxStripRows + 1;
    for (std::uint32_t strip = 0; strip < num_strips; ++strip) {
      StripCorner place{.row = strip * shape.m / num_strips, .col = 0};
      const std::uint32_t num_rows = (strip + 1) * shape.m / num_strips - place.row;
      for (; place.col + Columns16::kCount <= shape.cols; place.col += Columns16::kCount) {
        run_rows<kWide, Columns16>(x, pairs, count, num_rows, place, row_sums.data(), out);
      }
      if (place.col < shape.cols) run_rows<kWide, Columns8>(x, pairs, count, num_rows, place, row_sums.data(), out);
    }
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
