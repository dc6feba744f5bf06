// Multiply kernels for AVX2: vpmaddwd makes 8 sums of two products of 16-bit elements.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/simd/kernels.hpp"
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

#include "cpu/simd/avx2/digits.hpp"
#include "cpu/simd/c_block_driver.hpp"

namespace spmm::cpu {
namespace {

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
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
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
        const __m256i b_pair = offset<kWide>(_mm256_broadcastsi128_si256(_mm_load_si128(b + t)));
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
    for (int half = 0; half < 2; ++half) {
      if constexpr (kWide) {
        const __m256i rows = _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1), _mm256_set1_epi32(2 * half));
        const __m256i shifted = _mm256_castsi128_si256(_mm_slli_epi32(row_sums, 7));
        low[half] = join_digits(low[half], high[half], _mm256_permutevar8x32_epi32(shifted, rows));
      }
      _mm256_store_si256(reinterpret_cast<__m256i*>(out + 8 * half), low[half]);
    }
  }
};

/// Not inlined: of several copies in one function, GCC keeps sums in memory (side 9: 19 ns a pair, by calls 11).
template <auto kFunction, class... Args>
[[gnu::noinline]] void call(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, const Args&... args) {
  kFunction(x, pairs, count, args...);
}

/// Strips of 8 columns and as many rows as registers hold sums of, as equal as can be.
/// Values: kConstantSide = the padded columns if known when compiling, else 0.
template <std::uint32_t kConstantSide>
struct Strips {
  static constexpr std::uint32_t kSide = kConstantSide;
  static constexpr std::uint32_t kMaxRows = kSide != 0 ? kSide : kMaxBlockDim;
  static constexpr std::uint32_t kMaxCols = kMaxRows;
  // Blocks of one run stay in cache for all strips.
  static constexpr std::uint32_t kRunPairs = kSide == 8 || kSide == 16 ? 64 : 16;
  template <bool kWide, std::uint32_t kM>
  static constexpr std::uint32_t kMaxStripRows = kWide || kSide < 16 ? 4 : 12;
  static constexpr std::uint32_t kStripCols = 8;
  /// Whether blocks are separate functions. Of sides 15 and 16, wide, strips are.
  template <std::uint32_t kM>
  static constexpr bool kIsCalled = kSide == 16 && kM != 0 && kM <= 14;
  /// Columns of packed blocks of B and their elements, of sides known when compiling.
  template <std::uint32_t kM>
  static constexpr std::size_t kColsOfB = plan::has_tight_rows(kM) ? kM : kSide;
  template <std::uint32_t kM>
  static constexpr std::size_t kBlockOfB = plan::has_tight_rows(kM) ? plan::tight_shape(kM).b_elements()
                                                                    : kColsOfB<kM>*(kSide == 8 ? 8 : (kM + 1) / 2 * 2);

  /// Where a strip lies in a block.
  struct StripCorner {
    std::uint32_t row;
    std::uint32_t col;
  };

  /// Words from one row of sums to the next: kPadded, or that of a record.
  static constexpr std::uint32_t kPadded = 0;

  template <bool kWide, std::uint32_t kM, std::uint32_t kRows, std::uint32_t kStride>
  static void run_strip(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, const StripCorner& place,
                        const std::uint32_t* row_sums, std::uint32_t* out) {
    const std::size_t inner = kSide == 8 ? kSide : kM != 0 ? (kM + 1) / 2 * 2 : x.shape.inner;
    const std::size_t used_inner = kM != 0 ? kM : inner;  // what follows is padding
    const std::size_t cols = kSide != 0 ? kColsOfB<kM> : x.shape.cols;
    const std::size_t out_cols = kStride != kPadded ? kStride : kSide != 0 ? kSide : x.shape.cols;
    const std::size_t a_stride = kSide != 0 ? kSide * inner : x.shape.a_elements();
    const std::size_t b_stride = kSide != 0 ? kBlockOfB<kM> : inner * cols;
    __m256i low[kRows];
    __m256i high[kRows];
    const bool is_first = place.row == 0 && place.col == 0;
    const BlocksAhead ahead(x, b_stride * sizeof(std::uint16_t));
    for (std::uint32_t r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
    for (std::uint32_t p = 0; p < count; ++p) {
      if (is_first) ahead.fetch(pairs + p);
      const std::uint16_t* a = x.a + pairs[p].a * a_stride + place.row * inner;
      const std::uint16_t* b = x.b + pairs[p].b * b_stride + place.col * 2;
      for (std::size_t t = 0; t < used_inner; t += 2) {
        const __m256i b_pair = offset<kWide>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + t * cols)));
        for (std::uint32_t r = 0; r < kRows; ++r) {
          const std::size_t at = r * inner + t;
          const __m256i a_pair = _mm256_set1_epi32(two_elements(a + at));
          if constexpr (kWide) {
            low[r] = add_products(low[r], low_bytes(a_pair), b_pair);
            high[r] = add_products(high[r], high_bytes(a_pair), b_pair);
          } else {
            low[r] = add_products(low[r], a_pair, b_pair);
            // GCC would add the products of a row to each other first, for which registers are too few. Side 12 gains.
            if constexpr (kIsCalled<kM> && kM != 12) asm("" : "+x"(low[r]));
          }
        }
      }
    }
    for (std::uint32_t r = 0; r < kRows; ++r) {
      if constexpr (kWide) {
        const auto row_sum = static_cast<std::int32_t>(row_sums[place.row + r]);
        low[r] = join_digits(low[r], high[r], _mm256_set1_epi32(row_sum));
      }
      std::uint32_t* const to = out + (place.row + r) * out_cols + place.col;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), low[r]);
    }
  }

  /// Columns beyond the first strip that are summed one by one, by products along rows of A: up to three of sides 9 to
  /// 11, for which a strip of columns would be mostly padding. Side 9: 0.6 of the instructions.
  template <std::uint32_t kM>
  static constexpr std::uint32_t kLoneCols = kSide == 16 && kM != 0 && kM <= 11 ? kM - kStripCols : 0;

  /// Column `col` of the blocks of B of a run, as the rows of A meet it. Shapes: out [count].
  template <bool kWide, std::uint32_t kM>
  static void list_column(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t col,
                          __m256i* out) {
    constexpr std::size_t kInnerPairs = (kM + 1) / 2;
    for (std::uint32_t p = 0; p < count; ++p) {
      const std::uint16_t* b = x.b + pairs[p].b * kBlockOfB<kM> + col * 2;
      std::int32_t both[8] = {};  // what follows the last one meets elements of other rows of A
      for (std::size_t t = 0; t < kInnerPairs; ++t) {
        both[t] = two_elements(b + 2 * t * kColsOfB<kM>) ^ (kWide ? static_cast<std::int32_t>(0x8000'8000u) : 0);
      }
      out[p] = _mm256_setr_epi32(both[0], both[1], both[2], both[3], both[4], both[5], both[6], both[7]);
    }
  }

  /// Sums of all lanes of each of four registers, in the lower half.
  static __m256i sum_lanes(const __m256i* of) {
    const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(of[0], of[1]), _mm256_hadd_epi32(of[2], of[3]));
    return _mm256_add_epi32(sums, _mm256_castsi128_si256(_mm256_extracti128_si256(sums, 1)));
  }

  /// Rows of one column. Shapes: columns [count] of list_column().
  template <bool kWide, std::uint32_t kM, std::uint32_t kRows, std::uint32_t kStride>
  static void run_column(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, const StripCorner& place,
                         const __m256i* columns, const std::uint32_t* row_sums, std::uint32_t* out) {
    constexpr std::size_t kInner = (kM + 1) / 2 * 2;
    constexpr std::uint32_t kLanes = (kRows + 3) / 4 * 4;
    __m256i low[kLanes];
    __m256i high[kLanes];
    for (std::uint32_t r = 0; r < kLanes; ++r) low[r] = high[r] = _mm256_setzero_si256();
    for (std::uint32_t p = 0; p < count; ++p) {
      const std::uint16_t* a = x.a + pairs[p].a * (kSide * kInner) + place.row * kInner;
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + r * kInner));
        low[r] = add_products(low[r], kWide ? low_bytes(row) : row, columns[p]);
        if constexpr (kWide) high[r] = add_products(high[r], high_bytes(row), columns[p]);
      }
    }
    alignas(32) std::array<std::uint32_t, 8> sums;
    for (std::uint32_t r = 0; r < kRows; ++r) {
      if (r % 4 == 0) {
        __m256i of_rows = sum_lanes(low + r);
        if constexpr (kWide) {
          const __m128i rows = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row_sums + place.row + r));
          of_rows = join_digits(of_rows, sum_lanes(high + r), _mm256_castsi128_si256(rows));
        }
        _mm256_store_si256(reinterpret_cast<__m256i*>(sums.data()), of_rows);
      }
      out[(place.row + r) * (kStride != kPadded ? kStride : kSide) + place.col] = sums[r % 4];
    }
  }

  template <std::uint32_t kM>
  static void clear_second_strip(std::uint32_t* out) {
    for (std::uint32_t r = 0; r < kM; ++r) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + r * kSide + kStripCols), _mm256_setzero_si256());
    }
  }

  /// Strips from the kStrip-th one on. Shapes: columns [kLoneCols, kRunPairs] of list_column().
  template <bool kWide, std::uint32_t kM, std::uint32_t kStride, std::uint32_t kStrip = 0>
  static void run_strips(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, const __m256i* columns,
                         const std::uint32_t* row_sums, std::uint32_t* out) {
    constexpr std::uint32_t kNumStrips = (kM - 1) / kMaxStripRows<kWide, kM> + 1;
    constexpr std::uint32_t kRow = kStrip * kM / kNumStrips;
    constexpr std::uint32_t kRows = (kStrip + 1) * kM / kNumStrips - kRow;
    constexpr std::uint32_t kCols = kLoneCols<kM> != 0 ? kStripCols : kSide;
    for (std::uint32_t col = 0; col < kCols; col += kStripCols) {
      const StripCorner place{.row = kRow, .col = col};
      if constexpr (kWide && kSide == 16 && !kIsCalled<kM>) {
        call<run_strip<kWide, kM, kRows, kStride>>(x, pairs, count, place, row_sums, out);
      } else {
        run_strip<kWide, kM, kRows, kStride>(x, pairs, count, place, row_sums, out);
      }
    }
    for (std::uint32_t c = 0; c < kLoneCols<kM>; ++c) {
      run_column<kWide, kM, kRows, kStride>(x, pairs, count, {.row = kRow, .col = kStripCols + c},
                                            columns + c * kRunPairs, row_sums, out);
    }
    if constexpr (kStrip + 1 < kNumStrips) {
      run_strips<kWide, kM, kStride, kStrip + 1>(x, pairs, count, columns, row_sums, out);
    }
  }

  /// All strips of a side known when compiling.
  template <bool kWide, std::uint32_t kM, std::uint32_t kStride>
  static void run_block(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    alignas(32) std::array<std::uint32_t, kMaxRows> row_sums;
    if constexpr (kWide) sum_rows(x, pairs, count, kSide, row_sums.data());
    __m256i columns[std::max(1u, kLoneCols<kM> * kRunPairs)];
    for (std::uint32_t c = 0; c < kLoneCols<kM>; ++c) {
      list_column<kWide, kM>(x, pairs, count, kStripCols + c, columns + c * kRunPairs);
    }
    run_strips<kWide, kM, kStride>(x, pairs, count, columns, row_sums.data(), out);
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    if constexpr (kLoneCols<kM> != 0) clear_second_strip<kM>(out);
    if constexpr (kIsCalled<kM>) return call<run_block<kWide, kM, kPadded>>(x, pairs, count, out);
    if constexpr (kM != 0) return run_block<kWide, kM, kPadded>(x, pairs, count, out);
    alignas(32) std::array<std::uint32_t, kMaxRows> row_sums;
    if constexpr (kWide) sum_rows(x, pairs, count, kSide != 0 ? kSide : x.shape.rows, row_sums.data());
    const std::uint32_t* const of_rows = row_sums.data();
    const std::uint32_t m = x.shape.m;
    constexpr std::uint32_t kMost = kMaxStripRows<kWide, 0>;
    const std::uint32_t num_strips = (m - 1) / kMost + 1;
    for (std::uint32_t strip = 0; strip < num_strips; ++strip) {
      const std::uint32_t row = strip * m / num_strips;
      const bool is_full = (strip + 1) * m / num_strips - row == kMost;
      for (std::uint32_t col = 0; col < x.shape.cols; col += kStripCols) {
        is_full ? run_strip<kWide, kM, kMost, kPadded>(x, pairs, count, {.row = row, .col = col}, of_rows, out)
                : run_strip<kWide, kM, kMost - 1, kPadded>(x, pairs, count, {.row = row, .col = col}, of_rows, out);
      }
    }
  }

  /// Sums straight into a record, which has no padding; whether one is not zero.
  template <bool kWide, std::uint32_t kM>
  requires(kM != 0 &&
           (kM == kSide || kLoneCols<kM> != 0)) static bool run_and_store(const PackedBlocks& x, const PairRef* pairs,
                                                                          std::uint32_t count, std::byte* out) {
    auto* const sums = reinterpret_cast<std::uint32_t*>(out);
    if constexpr (kIsCalled<kM>) {
      call<run_block<kWide, kM, kM>>(x, pairs, count, sums);
    } else {
      run_block<kWide, kM, kM>(x, pairs, count, sums);
    }
    __m256i any = _mm256_setzero_si256();
    std::uint32_t any_lone = 0;
    for (std::uint32_t r = 0; r < kM; ++r) {  // loads like the stores before, which need not wait for those
      for (std::uint32_t col = 0; col < kM - kLoneCols<kM>; col += kStripCols) {
        any = _mm256_or_si256(any, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + r * kM + col)));
      }
      for (std::uint32_t c = 0; c < kLoneCols<kM>; ++c) any_lone |= sums[r * kM + kStripCols + c];
    }
    return _mm256_testz_si256(any, any) == 0 || any_lone != 0;
  }
};

}  // namespace

MultiplyCBlocks avx2_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  if (!arithmetic.wide) {  // wide sums of these sides gain nothing by constants
    if (shape.m == 17) return multiply_c_blocks<Strips<24>, false, 17>;
    if (shape.m == 18) return multiply_c_blocks<Strips<24>, false, 18>;
  }
  return pick_kernel<Side4, Strips<8>, Strips<8>, Strips>(shape, arithmetic);
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
