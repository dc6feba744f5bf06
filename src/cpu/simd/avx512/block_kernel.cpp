// Multiply kernels for AVX-512 with VNNI: vpdpwssd adds 32 products of 16-bit elements to 16 sums.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

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

/// Four pairs of elements, repeated in every lane. Shapes: from [4, 2]: of a row of A, or of columns of two rows of B.
inline __m512i repeat_four(const std::uint16_t* from) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

/// Side 8: four registers of sums, each element of A shuffled once for all columns.
struct Side8 {
  static constexpr std::uint32_t kSide = 8;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = kNoRunLimit;

  template <bool kWide, int T>
  static void step(Sums8& low, Sums8& high, __m512i top, __m512i bottom, const std::uint16_t* b) {
    const __m512i left = offset<kWide>(repeat_four(b + 16 * T));
    const __m512i right = offset<kWide>(repeat_four(b + 16 * T + 8));
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

/// Sides 9 to 18, known when compiling: all rows at once, each with 16 columns in a register. Columns 16 and 17 are
/// summed one by one, by products along rows of A: half a register for them would be mostly padding.
/// Values: kPadded = the padded columns.
template <std::uint32_t kPadded>
struct AllRows {
  static constexpr std::uint32_t kSide = kPadded;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = kSide == 16 ? 16 : 8;  // blocks of A stay in cache, split into digits
  static constexpr std::uint32_t kLanes = Columns16::kCount;

  template <std::uint32_t kM>
  static constexpr std::uint32_t kLoneCols = kM > kLanes ? kM - kLanes : 0;
  template <std::uint32_t kM>
  static constexpr std::size_t kInner = (kM + 1) / 2 * 2;
  template <std::uint32_t kM>
  static constexpr std::size_t kBlockOfA = kSide* kInner<kM>;
  template <std::uint32_t kM>
  static constexpr std::size_t kColsOfB = plan::has_tight_rows(kM) ? kM : kSide;
  template <std::uint32_t kM>
  static constexpr std::size_t kBlockOfB = plan::has_tight_rows(kM) ? plan::tight_shape(kM).b_elements()
                                                                    : kColsOfB<kM>* kInner<kM>;

  /// Two rows of B. Values: lanes without a column are zero.
  template <std::uint32_t kM>
  static __m512i load_rows(const std::uint16_t* b) {
    constexpr auto kColumns = static_cast<__mmask16>((1u << kM) - 1);
    return plan::has_tight_rows(kM) ? _mm512_maskz_loadu_epi32(kColumns, b) : Columns16::load(b);
  }

  /// Sums of a run, or of one of its digits. Shapes: lone [columns, 2]: a lane for each row.
  template <std::uint32_t kM>
  struct Sums {
    __m512i rows[kM];
    __m512i lone[kLoneCols<kM> + 1][2];
  };

  /// Lone columns of a run's blocks of B, as rows of A meet them. Shapes: [columns, pairs].
  template <std::uint32_t kM>
  using LoneColumns = __m512i[kLoneCols<kM> + 1][kRunPairs];

  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static void list_columns(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                                  LoneColumns<kM>& out) {
    constexpr std::uint32_t kElements = kInner<kM> / 2;
    const __m512i offset = _mm512_maskz_set1_epi32((1u << kElements) - 1, static_cast<int>(0x8000'8000u));
    for (std::uint32_t p = 0; p < count; ++p) {
      const std::uint16_t* b = x.b + pairs[p].b * (kInner<kM> * kSide) + 2 * kLanes;
      for (std::uint32_t c = 0; c < kLoneCols<kM>; ++c) {
        __m512i column = _mm512_setzero_si512();
#pragma GCC unroll 16
        for (std::uint32_t t = 0; t < kElements; ++t) {
          const __m128i element = _mm_cvtsi32_si128(two_elements(b + 2 * (t * kSide + c)));
          column = _mm512_mask_broadcastd_epi32(column, static_cast<__mmask16>(1u << t), element);
        }
        out[c][p] = kWide ? _mm512_xor_si512(column, offset) : column;
      }
    }
  }

  /// Sums of each two neighbours among the 128 bits of x, then of y.
  static __m512i add_halves(__m512i x, __m512i y) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xDD));
  }

  /// Sums of all lanes of each of 16 registers.
  static __m512i sum_lanes(const __m512i* of) {
    __m512i fours[4];  // in each 128 bits, sums of 128 bits of four registers
    for (int f = 0; f < 4; ++f) {
      const __m512i* const x = of + 4 * f;
      const __m512i low = _mm512_add_epi32(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
      const __m512i high = _mm512_add_epi32(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
      fours[f] = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
    }
    return add_halves(add_halves(fours[0], fours[1]), add_halves(fours[2], fours[3]));
  }

  /// One lone column of all rows. Shapes: a [count], columns [count], out [2]: 32 rows.
  template <std::uint32_t kM>
  [[gnu::always_inline]] static void sum_column(const std::uint16_t* const* a, const __m512i* columns,
                                                std::uint32_t count, __m512i* out) {
    __m512i sums[kM];
#pragma GCC unroll 18
    for (std::uint32_t r = 0; r < kM; ++r) sums[r] = _mm512_setzero_si512();
    for (std::uint32_t p = 0; p < count; ++p) {
#pragma GCC unroll 18
      for (std::uint32_t r = 0; r < kM; ++r) {
        sums[r] = _mm512_dpwssd_epi32(sums[r], Columns16::load(a[p] + r * kInner<kM>), columns[p]);
      }
    }
    __m512i padded[2 * kLanes];
#pragma GCC unroll 32
    for (std::uint32_t r = 0; r < 2 * kLanes; ++r) padded[r] = r < kM ? sums[r] : _mm512_setzero_si512();
    out[0] = sum_lanes(padded);
    out[1] = sum_lanes(padded + kLanes);
  }

  /// Sums of blocks of A, or of one digit of them, times those of B. Shapes: a [count].
  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static void sum_digit(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                               const std::uint16_t* const* a, const LoneColumns<kM>& columns,
                                               Sums<kM>& out) {
    __m512i rows[kM];
#pragma GCC unroll 18
    for (std::uint32_t r = 0; r < kM; ++r) rows[r] = _mm512_setzero_si512();
    for (std::uint32_t p = 0; p < count; ++p) {
      const std::uint16_t* b = x.b + pairs[p].b * kBlockOfB<kM>;
#pragma GCC unroll 1
      for (std::size_t t = 0; t < kInner<kM>; t += 2) {
        const __m512i b_pair = offset<kWide>(load_rows<kM>(b + t * kColsOfB<kM>));
#pragma GCC unroll 18
        for (std::uint32_t r = 0; r < kM; ++r) {
          const __m512i a_pair = _mm512_set1_epi32(two_elements(a[p] + r * kInner<kM> + t));
          rows[r] = _mm512_dpwssd_epi32(rows[r], b_pair, a_pair);
        }
      }
    }
#pragma GCC unroll 18
    for (std::uint32_t r = 0; r < kM; ++r) out.rows[r] = rows[r];
    for (std::uint32_t c = 0; c < kLoneCols<kM>; ++c) sum_column<kM>(a, columns[c], count, out.lone[c]);
  }

  /// Both digits of the elements of A: split once, not in each product. Shapes: low, high [count, kBlockOfA].
  template <std::uint32_t kM>
  [[gnu::always_inline]] static void split(const std::uint16_t* const* a, std::uint32_t count, std::uint16_t* low,
                                           std::uint16_t* high) {
    for (std::uint32_t p = 0; p < count; ++p) {
      for (std::size_t e = 0; e < kM * kInner<kM>; e += 2 * kLanes) {
        const __m512i elements = _mm512_loadu_si512(a[p] + e);
        _mm512_storeu_si512(low + p * kBlockOfA<kM> + e, low_bytes(elements));
        _mm512_storeu_si512(high + p * kBlockOfA<kM> + e, high_bytes(elements));
      }
    }
  }

  template <bool kWide, std::uint32_t kM>
  [[gnu::always_inline]] static void sum(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                         Sums<kM>& out) {
    const BlocksAhead ahead(x, kBlockOfB<kM> * sizeof(std::uint16_t));
    const std::uint16_t* a[kRunPairs];
    for (std::uint32_t p = 0; p < count; ++p) {
      ahead.fetch(pairs + p);
      a[p] = x.a + pairs[p].a * kBlockOfA<kM>;
    }
    LoneColumns<kM> columns;
    list_columns<kWide, kM>(x, pairs, count, columns);
    if constexpr (!kWide) return sum_digit<kWide, kM>(x, pairs, count, a, columns, out);
    alignas(64) std::uint16_t digits[2][kRunPairs * kBlockOfA<kM>];
    split<kM>(a, count, digits[0], digits[1]);
    alignas(64) std::array<std::uint32_t, 2 * kLanes> row_sums;
    sum_rows(x, pairs, count, kSide, row_sums.data());
    Sums<kM> high;
    for (std::uint32_t p = 0; p < count; ++p) a[p] = digits[1] + p * kBlockOfA<kM>;
    sum_digit<kWide, kM>(x, pairs, count, a, columns, high);
    for (std::uint32_t p = 0; p < count; ++p) a[p] = digits[0] + p * kBlockOfA<kM>;
    sum_digit<kWide, kM>(x, pairs, count, a, columns, out);
    for (std::uint32_t r = 0; r < kM; ++r) {
      const __m512i of_row = _mm512_set1_epi32(static_cast<int>(row_sums[r]));
      out.rows[r] = join_digits(out.rows[r], high.rows[r], of_row);
    }
    for (std::uint32_t c = 0; c < kLoneCols<kM>; ++c) {
      for (std::uint32_t half = 0; half < 2; ++half) {
        const __m512i of_rows = _mm512_load_si512(row_sums.data() + half * kLanes);
        out.lone[c][half] = join_digits(out.lone[c][half], high.lone[c][half], of_rows);
      }
    }
  }

  /// The lone columns of a row, zeros after them.
  template <std::uint32_t kM>
  [[gnu::always_inline]] static __m256i lone_of_row(const Sums<kM>& sums, std::uint32_t r) {
    static_assert(kLoneCols<kM> == 1 || kLoneCols<kM> == 2);
    constexpr auto kUsed = static_cast<__mmask16>((1u << kLoneCols<kM>)-1);
    const auto lane = static_cast<int>(r % kLanes);
    const __m512i lanes = _mm512_mask_set1_epi32(_mm512_set1_epi32(lane), 2, lane + static_cast<int>(kLanes));
    const __m512i* const first = sums.lone[0] + r / kLanes;
    const __m512i* const last = sums.lone[kLoneCols<kM> - 1] + r / kLanes;
    return _mm512_castsi512_si256(_mm512_maskz_permutex2var_epi32(kUsed, *first, lanes, *last));
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    Sums<kM> sums;
    sum<kWide, kM>(x, pairs, count, sums);
    for (std::uint32_t r = 0; r < kM; ++r) {
      Columns16::store(out + r * kSide, sums.rows[r]);
      if constexpr (kLoneCols<kM> != 0) Columns8::store(out + r * kSide + kLanes, lone_of_row<kM>(sums, r));
    }
  }

  /// Sums straight into a record; whether one is not zero.
  template <bool kWide, std::uint32_t kM>
  static bool run_and_store(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::byte* out) {
    Sums<kM> sums;
    sum<kWide, kM>(x, pairs, count, sums);
    __m512i any = _mm512_setzero_si512();
#pragma GCC unroll 18
    for (std::uint32_t r = 0; r < kM; ++r) {
      std::byte* const to = out + r * kM * sizeof(std::uint32_t);
      any = _mm512_or_si512(any, sums.rows[r]);
      if (r + 1 < kM || kM >= kLanes) {  // the next row overwrites what lies beyond this one
        _mm512_storeu_si512(to, sums.rows[r]);
      } else {
        _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << kM) - 1), sums.rows[r]);
      }
      if constexpr (kLoneCols<kM> != 0) {
        constexpr auto kUsed = static_cast<__mmask8>((1u << kLoneCols<kM>)-1);
        const __m256i lone = lone_of_row<kM>(sums, r);
        _mm256_mask_storeu_epi32(to + kLanes * sizeof(std::uint32_t), kUsed, lone);
        any = _mm512_or_si512(any, _mm512_zextsi256_si512(lone));
      }
    }
    return _mm512_test_epi32_mask(any, any) != 0;
  }
};

/// Any larger side: strips of up to 8 rows, as equal as can be, and 16 or 8 columns.
struct Strips {
  static constexpr std::uint32_t kSide = 0;
  static constexpr std::uint32_t kMaxRows = kMaxBlockDim;
  static constexpr std::uint32_t kMaxCols = kMaxRows;
  static constexpr std::uint32_t kRunPairs = 16;  // blocks of one run stay in the second-level cache for all strips
  static constexpr std::uint32_t kMaxStripRows = 8;

  /// Where a strip lies in a block.
  struct StripCorner {
    std::uint32_t row;
    std::uint32_t col;
  };

  template <bool kWide, class Columns, std::uint32_t kRows>
  static void run_strip(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, const StripCorner& place,
                        const std::uint32_t* row_sums, std::uint32_t* out) {
    using Register = typename Columns::Register;
    const std::size_t inner = x.shape.inner;
    const std::size_t cols = x.shape.cols;
    const std::size_t a_stride = x.shape.a_elements();
    const std::size_t b_stride = inner * cols;
    const bool is_first = place.row == 0 && place.col == 0;
    const BlocksAhead ahead(x, b_stride * sizeof(std::uint16_t));
    Register low[kRows];
    Register high[kRows];
#pragma GCC unroll 16
    for (std::uint32_t r = 0; r < kRows; ++r) low[r] = high[r] = Columns::zero();
    for (std::uint32_t p = 0; p < count; ++p) {
      if (is_first) ahead.fetch(pairs + p);
      const std::uint16_t* a = x.a + pairs[p].a * a_stride + place.row * inner;
      const std::uint16_t* b = x.b + pairs[p].b * b_stride + place.col * 2;
#pragma GCC unroll 1
      for (std::size_t t = 0; t < inner; t += 2) {
        const std::uint16_t* const of_b = b + t * cols;
        const Register b_pair = kWide ? Columns::load_offset(of_b) : Columns::load(of_b);
#pragma GCC unroll 16
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
        return run_strip<kWide, Columns, 4>(x, pairs, count, place, row_sums, out);
      case 5:
        return run_strip<kWide, Columns, 5>(x, pairs, count, place, row_sums, out);
      case 6:
        return run_strip<kWide, Columns, 6>(x, pairs, count, place, row_sums, out);
      case 7:
        return run_strip<kWide, Columns, 7>(x, pairs, count, place, row_sums, out);
      default:  // half of what kMaxStripRows divides with a remainder of 1 is 4
        return run_strip<kWide, Columns, 8>(x, pairs, count, place, row_sums, out);
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    const PackedShape& shape = x.shape;
    alignas(64) std::array<std::uint32_t, kMaxRows> row_sums;
    if constexpr (kWide) sum_rows(x, pairs, count, shape.rows, row_sums.data());
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

template <std::uint32_t kSide>
using LargerSides = std::conditional_t<kSide == 0, Strips, AllRows<kSide>>;

}  // namespace

MultiplyCBlocks avx512_vnni_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  if (shape.m == 17) return for_arithmetic<AllRows<24>, 17>(arithmetic);
  if (shape.m == 18) return for_arithmetic<AllRows<24>, 18>(arithmetic);
  return pick_kernel<Side4, Side6, Side8, LargerSides>(shape, arithmetic);
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
