// Sums of rows of C for AVX-512 with VNNI, sides 4 to 8.
#include "cpu/simd/accumulator_kernel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "plan/models/host_models.hpp"
#include "spmm/types.hpp"

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

namespace spmm::cpu {
namespace {

constexpr std::size_t kHeadBytes = sizeof(BlockIndex);

/// Fetches a block of B.
template <std::size_t kElements>
inline void fetch_block(const std::uint16_t* block) {
  constexpr std::size_t kLineElements = 32;
  for (std::size_t e = 0; e < kElements; e += kLineElements) __builtin_prefetch(block + e);
}

/// Four columns of two rows of B, repeated in every lane of 128 bits.
inline __m512i repeat(const std::uint16_t* b) {
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(b)));
}

/// Stores wait for their lines one after the other, so those of records to come are fetched: about 4 % of P1 and P2.
constexpr std::size_t kBytesAhead = 1024;
template <std::size_t kRecord>
inline void fetch_ahead(std::byte* out) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < kRecord / kLine * kLine; at += kLine) __builtin_prefetch(out + kBytesAhead + at, 1);
}

/// Writes the index of a record.
inline void store_index(std::byte* out, std::uint32_t row, std::uint32_t col) {
  const BlockIndex at{.i = row, .j = col};
  std::memcpy(out, &at, kHeadBytes);
}

/// How sums grow: as AccumulatorKernel has it.
enum class Sums { plain, clamped, wide };

/// Side 4: the sums of a block are one register, a lane per row.
template <Sums kSums>
std::uint32_t add_4(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
  constexpr std::size_t kElements = 16;
  const auto [a, b, cols, count, ahead, a_row_sums] = run;
  const __m512i spread0 = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
  const __m512i spread1 = _mm512_add_epi32(spread0, _mm512_set1_epi32(1));
  const __m512i block = _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(a)));
  const __m512i a0 = _mm512_permutexvar_epi32(spread0, block);
  const __m512i a1 = _mm512_permutexvar_epi32(spread1, block);
  __m512i of_rows = _mm512_setzero_si512();
  if constexpr (kSums == Sums::wide) {
    const __m128i row_sums = _mm_slli_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a_row_sums)), 7);
    const __m512i rows = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    of_rows = _mm512_permutexvar_epi32(rows, _mm512_castsi128_si512(row_sums));
  }
  std::uint32_t x = 0;
  for (; x < count && cols[x] < end_col; ++x) {
    fetch_block<kElements>(ahead + x * kElements);
    std::uint32_t* const at = sums + (cols[x] - first_col) * kElements;
    const __m512i b0 = offset<kSums == Sums::wide>(repeat(b + x * kElements));
    const __m512i b1 = offset<kSums == Sums::wide>(repeat(b + x * kElements + 8));
    __m512i sum = kSums == Sums::plain ? _mm512_load_si512(at) : _mm512_setzero_si512();
    if constexpr (kSums == Sums::wide) {
      const __m512i low = _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(sum, low_bytes(a0), b0), low_bytes(a1), b1);
      const __m512i high = _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(sum, high_bytes(a0), b0), high_bytes(a1), b1);
      sum = join_digits(low, high, of_rows);
    } else {
      sum = _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(sum, a0, b0), a1, b1);
    }
    _mm512_store_si512(at, kSums == Sums::plain ? sum : add_clamped(_mm512_load_si512(at), sum));
  }
  return x;
}

std::byte* store_4(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                   std::byte* out) {
  constexpr std::size_t kRecord = kHeadBytes + 16 * sizeof(std::uint32_t);
  for (std::uint32_t x = 0; x < count; ++x) {
    const __m512i sum = _mm512_load_si512(sums + x * std::size_t{16});
    _mm512_store_si512(sums + x * std::size_t{16}, _mm512_setzero_si512());
    fetch_ahead<kRecord>(out);
    store_index(out, row, first_col + x);  // overwritten unless a sum is not zero
    _mm512_storeu_si512(out + kHeadBytes, sum);
    out += _mm512_test_epi32_mask(sum, sum) != 0 ? kRecord : 0;
  }
  return out;
}

/// Eight columns of two rows of B, twice.
inline __m512i repeat_row(const std::uint16_t* b) {
  return _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(b)));
}

/// Sides 5 to 8: rows of 8 elements, or of 8 sums, two in a register.
template <std::uint32_t kSide>
struct Rows {
  static constexpr std::size_t kRegisters = (kSide + 1) / 2;      // of a block of C
  static constexpr std::size_t kInnerPairs = (kSide + 1) / 2;     // pairs of rows of B
  static constexpr std::size_t kElements = kAccumulatorElements;  // of a packed block of A or B
  static constexpr std::size_t kUsedElements = kInnerPairs * 16;  // of B, the rest is padding
  static constexpr std::size_t kSumElements = kRegisters * 16;
  static_assert(kSide > 4 && kSide * kSide <= kElements);

  /// Elements 2t, 2t + 1 of rows 2r and 2r + 1 of A, each for all columns of its half.
  /// Values: half_of_a = rows 0 to 3, or 4 to 7.
  static __m512i spread(__m512i half_of_a, std::size_t r, std::size_t t) {
    const __m512i upper_and_lower = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4);
    const __m512i from = _mm512_set1_epi32(static_cast<int>(r % 2 * 8 + t));
    return _mm512_permutexvar_epi32(_mm512_add_epi32(upper_and_lower, from), half_of_a);
  }

  /// Elements [16 * part, 16 * part + 16) of a block without padding, from registers part and part + 1. Values: beyond
  /// the last element anything.
  static __m512i dense(std::size_t part, __m512i first, __m512i second) {
    alignas(64) std::uint32_t from[16];
    for (std::size_t lane = 0; lane < 16; ++lane) {
      const std::size_t element = 16 * part + lane;
      from[lane] = static_cast<std::uint32_t>(element / kSide * 8 + element % kSide - 16 * part);
    }
    return _mm512_permutex2var_epi32(first, _mm512_load_si512(from), second);
  }

  /// A block without padding. Shapes: sum [kRegisters], out [kSide, kSide] u32.
  static void store_block(const __m512i* sum, std::byte* out) {
    constexpr std::size_t kLine = 64;
    if constexpr (kSide == 8) {
      for (std::size_t r = 0; r < 4; ++r) _mm512_storeu_si512(out + kLine * r, sum[r]);
    } else if constexpr (kSide == 7) {
      for (std::size_t r = 0; r < 3; ++r) _mm512_storeu_si512(out + kLine * r, dense(r, sum[r], sum[r + 1]));
      const int last = _mm_extract_epi32(_mm512_extracti32x4_epi32(sum[3], 1), 2);
      std::memcpy(out + 3 * kLine, &last, sizeof last);
    } else if constexpr (kSide == 6) {
      for (std::size_t r = 0; r < 2; ++r) _mm512_storeu_si512(out + kLine * r, dense(r, sum[r], sum[r + 1]));
      const __m512i last = dense(2, sum[2], sum[2]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * kLine), _mm512_castsi512_si128(last));
    } else {
      _mm512_storeu_si512(out, dense(0, sum[0], sum[1]));
      const __m512i rest = dense(1, sum[1], sum[2]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + kLine), _mm512_castsi512_si256(rest));
      const int last = _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(rest, 2));
      std::memcpy(out + kLine + 32, &last, sizeof last);
    }
  }

  template <Sums kSums>
  static std::uint32_t add(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
    const auto [a, b, cols, count, ahead, a_row_sums] = run;
    const __m512i halves[2] = {_mm512_load_si512(a), _mm512_load_si512(a + 32)};
    __m512i rows[kRegisters][kInnerPairs];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRegisters; ++r) {
#pragma GCC unroll 4
      for (std::size_t t = 0; t < kInnerPairs; ++t) rows[r][t] = spread(halves[r / 2], r, t);
    }
    std::uint32_t x = 0;
    for (; x < count && cols[x] < end_col; ++x) {
      fetch_block<kUsedElements>(ahead + x * kElements);
      std::uint32_t* const at = sums + (cols[x] - first_col) * kSumElements;
      const std::uint16_t* const block = b + x * kElements;
      __m512i sum[kRegisters];
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRegisters; ++r) {
        sum[r] = kSums == Sums::plain ? _mm512_load_si512(at + 16 * r) : _mm512_setzero_si512();
      }
#pragma GCC unroll 4
      for (std::size_t t = 0; t < kInnerPairs; ++t) {
        const __m512i columns = repeat_row(block + 16 * t);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < kRegisters; ++r) sum[r] = _mm512_dpwssd_epi32(sum[r], rows[r][t], columns);
      }
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRegisters; ++r) {
        _mm512_store_si512(at + 16 * r,
                           kSums == Sums::plain ? sum[r] : add_clamped(_mm512_load_si512(at + 16 * r), sum[r]));
      }
    }
    return x;
  }

  /// Both digits of A, spread, lie in memory: registers would not hold them.
  static std::uint32_t add_wide(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col,
                                std::uint32_t* sums) {
    const auto [a, b, cols, count, ahead, a_row_sums] = run;
    const __m512i halves[2] = {_mm512_load_si512(a), _mm512_load_si512(a + 32)};
    const __m512i two_rows = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const auto* const row_sums = reinterpret_cast<const __m256i*>(a_row_sums);
    const __m512i shifted = _mm512_castsi256_si512(_mm256_slli_epi32(_mm256_loadu_si256(row_sums), 7));
    __m512i low_digits[kRegisters][kInnerPairs];
    __m512i high_digits[kRegisters][kInnerPairs];
    __m512i of_rows[kRegisters];
    for (std::size_t r = 0; r < kRegisters; ++r) {
      const __m512i from = _mm512_add_epi32(two_rows, _mm512_set1_epi32(static_cast<int>(2 * r)));
      of_rows[r] = _mm512_permutexvar_epi32(from, shifted);
      for (std::size_t t = 0; t < kInnerPairs; ++t) {
        const __m512i elements = spread(halves[r / 2], r, t);
        low_digits[r][t] = low_bytes(elements);
        high_digits[r][t] = high_bytes(elements);
      }
    }
    std::uint32_t x = 0;
    for (; x < count && cols[x] < end_col; ++x) {
      fetch_block<kUsedElements>(ahead + x * kElements);
      std::uint32_t* const at = sums + (cols[x] - first_col) * kSumElements;
      const std::uint16_t* const block = b + x * kElements;
      __m512i columns[kInnerPairs];
#pragma GCC unroll 4
      for (std::size_t t = 0; t < kInnerPairs; ++t) columns[t] = offset<true>(repeat_row(block + 16 * t));
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRegisters; ++r) {
        __m512i low = _mm512_setzero_si512();
        __m512i high = low;
#pragma GCC unroll 4
        for (std::size_t t = 0; t < kInnerPairs; ++t) {
          low = _mm512_dpwssd_epi32(low, columns[t], low_digits[r][t]);
          high = _mm512_dpwssd_epi32(high, columns[t], high_digits[r][t]);
        }
        const __m512i sum = join_digits(low, high, of_rows[r]);
        _mm512_store_si512(at + 16 * r, add_clamped(_mm512_load_si512(at + 16 * r), sum));
      }
    }
    return x;
  }

  static std::byte* store(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                          std::byte* out) {
    constexpr std::size_t kRecord = kHeadBytes + kSide * kSide * sizeof(std::uint32_t);
    for (std::uint32_t x = 0; x < count; ++x) {
      std::uint32_t* const at = sums + x * kSumElements;
      __m512i sum[kRegisters];
      __m512i any = _mm512_setzero_si512();
      for (std::size_t r = 0; r < kRegisters; ++r) {
        sum[r] = _mm512_load_si512(at + 16 * r);
        any = _mm512_or_si512(any, sum[r]);
        _mm512_store_si512(at + 16 * r, _mm512_setzero_si512());
      }
      fetch_ahead<kRecord>(out);
      store_index(out, row, first_col + x);  // overwritten unless a sum is not zero
      store_block(sum, out + kHeadBytes);
      out += _mm512_test_epi32_mask(any, any) != 0 ? kRecord : 0;
    }
    return out;
  }

  static AccumulatorKernel kernel() {
    return {.sum_elements = kSumElements,
            .sums_bytes = kSumsBytes,
            .least_pairs = plan::least_summed_pairs(Isa::avx512_vnni, kSide),
            .add = add<Sums::plain>,
            .add_clamped = add<Sums::clamped>,
            .add_wide = add_wide,
            .store = store};
  }
};

}  // namespace

AccumulatorKernel avx512_vnni_accumulator(const PackedShape& shape) {
  switch (shape.m) {
    case 4:
      return {.sum_elements = 16,
              .sums_bytes = kSide4SumsBytes,
              .least_pairs = plan::least_summed_pairs(Isa::avx512_vnni, 4),
              .add = add_4<Sums::plain>,
              .add_clamped = add_4<Sums::clamped>,
              .add_wide = add_4<Sums::wide>,
              .store = store_4};
    case 5:
      return Rows<5>::kernel();
    case 6:
      return Rows<6>::kernel();
    case 7:
      return Rows<7>::kernel();
    case 8:
      return Rows<8>::kernel();
    default:
      return {};
  }
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

AccumulatorKernel avx512_vnni_accumulator(const PackedShape&) {
  return {};
}

}  // namespace spmm::cpu

#endif
