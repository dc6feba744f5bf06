// Sums of rows of C for AVX2, sides 4 to 8.
#include "cpu/simd/accumulator_kernel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "plan/models/host_models.hpp"
#include "spmm/types.hpp"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#include "cpu/simd/avx2/digits.hpp"

namespace spmm::cpu {
namespace {

constexpr std::size_t kHeadBytes = sizeof(BlockIndex);

inline __m256i load(const std::uint32_t* sums) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(sums));
}
inline void store(std::uint32_t* sums, __m256i value) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(sums), value);
}

template <std::size_t kElements>
inline void fetch_block(const std::uint16_t* block) {
  constexpr std::size_t kLineElements = 32;
  for (std::size_t e = 0; e < kElements; e += kLineElements) __builtin_prefetch(block + e);
}

inline __m256i add_products(__m256i sum, __m256i a, __m256i b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

/// How sums grow: as AccumulatorKernel has it.
enum class Sums { plain, clamped, wide };

/// Side 4: two registers of sums, a lane of 128 bits per row.
template <Sums kSums>
std::uint32_t add_4(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
  constexpr std::size_t kElements = 16;
  const auto [a, b, cols, count, ahead, a_row_sums] = run;
  const __m256i block = _mm256_load_si256(reinterpret_cast<const __m256i*>(a));
  const __m256i first = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
  __m256i spread[2][2];  // [rows 0-1, rows 2-3][elements 0-1, elements 2-3], each for all columns of its lane
  __m256i of_rows[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (int half = 0; half < 2; ++half) {
    for (int t = 0; t < 2; ++t) {
      spread[half][t] = _mm256_permutevar8x32_epi32(block, _mm256_add_epi32(first, _mm256_set1_epi32(4 * half + t)));
    }
    if constexpr (kSums == Sums::wide) {
      const __m128i row_sums = _mm_slli_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a_row_sums)), 7);
      const __m256i rows = _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1), _mm256_set1_epi32(2 * half));
      of_rows[half] = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(row_sums), rows);
    }
  }
  std::uint32_t x = 0;
  for (; x < count && cols[x] < end_col; ++x) {
    fetch_block<kElements>(ahead + x * kElements);
    std::uint32_t* const at = sums + (cols[x] - first_col) * kElements;
    const auto* of_b = reinterpret_cast<const __m128i*>(b + x * kElements);
    const __m256i upper = offset<kSums == Sums::wide>(_mm256_broadcastsi128_si256(_mm_load_si128(of_b)));
    const __m256i lower = offset<kSums == Sums::wide>(_mm256_broadcastsi128_si256(_mm_load_si128(of_b + 1)));
    for (std::size_t half = 0; half < 2; ++half) {
      const __m256i before = load(at + 8 * half);
      const auto [first_a, second_a] = spread[half];
      if constexpr (kSums == Sums::wide) {
        const __m256i low = add_products(_mm256_madd_epi16(low_bytes(first_a), upper), low_bytes(second_a), lower);
        const __m256i high = add_products(_mm256_madd_epi16(high_bytes(first_a), upper), high_bytes(second_a), lower);
        store(at + 8 * half, add_clamped(before, join_digits(low, high, of_rows[half])));
      } else {
        const __m256i products = add_products(_mm256_madd_epi16(first_a, upper), second_a, lower);
        store(at + 8 * half, kSums == Sums::plain ? _mm256_add_epi32(before, products) : add_clamped(before, products));
      }
    }
  }
  return x;
}

inline __m256i spread_two(const std::uint16_t* elements) {
  std::int32_t both;
  std::memcpy(&both, elements, sizeof both);
  return _mm256_set1_epi32(both);
}

/// Sides 5 to 8 in blocks padded to 8: a register of sums per row.
template <std::size_t kSide>
struct Rows {
  static constexpr std::size_t kElements = kAccumulatorElements;
  static_assert(kSide > 4 && kSide * kSide <= kElements);
  static constexpr std::size_t kSumElements = 8 * kSide;
  static constexpr std::size_t kInnerPairs = (kSide + 1) / 2;

  /// Adds the products of kBlocks blocks of B, columns `of_b`, to their sums: each pair of elements of A is spread once
  /// for all of them.
  template <Sums kSums, std::size_t kBlocks>
  static void add_blocks(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* const (&sums)[kBlocks]) {
    __m256i columns[kBlocks][kInnerPairs];
    for (std::size_t x = 0; x < kBlocks; ++x) {
      const auto* of_b = reinterpret_cast<const __m256i*>(b + x * kElements);
      for (std::size_t t = 0; t < kInnerPairs; ++t) columns[x][t] = _mm256_load_si256(of_b + t);
    }
    for (std::size_t r = 0; r < kSide; ++r) {
      __m256i rows[kBlocks];
      for (std::size_t x = 0; x < kBlocks; ++x) {
        rows[x] = kSums == Sums::plain ? load(sums[x] + 8 * r) : _mm256_setzero_si256();
      }
      for (std::size_t t = 0; t < kInnerPairs; ++t) {
        const __m256i both = spread_two(a + 8 * r + 2 * t);
        for (std::size_t x = 0; x < kBlocks; ++x) rows[x] = add_products(rows[x], both, columns[x][t]);
      }
      for (std::size_t x = 0; x < kBlocks; ++x) {
        store(sums[x] + 8 * r, kSums == Sums::plain ? rows[x] : add_clamped(load(sums[x] + 8 * r), rows[x]));
      }
    }
  }

  template <Sums kSums>
  static std::uint32_t add(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
    const std::uint16_t* const a = run.a;
    const std::uint16_t* const b = run.b;
    const std::uint32_t* const cols = run.cols;
    const std::uint16_t* const ahead = run.ahead;
    const std::uint32_t count = run.count;
    const auto sums_of = [&](std::uint32_t x) { return sums + (cols[x] - first_col) * kSumElements; };
    std::uint32_t x = 0;
    for (; x + 1 < count && cols[x + 1] < end_col; x += 2) {
      fetch_block<2 * kElements>(ahead + x * kElements);
      add_blocks<kSums, 2>(a, b + x * kElements, {sums_of(x), sums_of(x + 1)});
    }
    if (x < count && cols[x] < end_col) {
      fetch_block<kElements>(ahead + x * kElements);
      add_blocks<kSums, 1>(a, b + x * kElements, {sums_of(x)});
      ++x;
    }
    return x;
  }

  static std::uint32_t add_wide(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col,
                                std::uint32_t* sums) {
    const auto [a, b, cols, count, ahead, a_row_sums] = run;
    alignas(32) std::uint16_t low_digits[kElements];
    alignas(32) std::uint16_t high_digits[kElements];
    for (std::size_t e = 0; e < kElements; ++e) {
      low_digits[e] = static_cast<std::uint16_t>(a[e] & 0xFF);
      high_digits[e] = static_cast<std::uint16_t>(a[e] >> 8);
    }
    std::uint32_t x = 0;
    for (; x < count && cols[x] < end_col; ++x) {
      fetch_block<kElements>(ahead + x * kElements);
      std::uint32_t* const at = sums + (cols[x] - first_col) * kSumElements;
      const auto* of_b = reinterpret_cast<const __m256i*>(b + x * kElements);
      __m256i columns[kInnerPairs];
      for (std::size_t t = 0; t < kInnerPairs; ++t) columns[t] = offset<true>(_mm256_load_si256(of_b + t));
      for (std::size_t r = 0; r < kSide; ++r) {
        __m256i low = _mm256_setzero_si256();
        __m256i high = low;
        for (std::size_t t = 0; t < kInnerPairs; ++t) {
          low = add_products(low, spread_two(low_digits + 8 * r + 2 * t), columns[t]);
          high = add_products(high, spread_two(high_digits + 8 * r + 2 * t), columns[t]);
        }
        const __m256i row_sum = _mm256_set1_epi32(static_cast<std::int32_t>(a_row_sums[r] << 7));
        store(at + 8 * r, add_clamped(load(at + 8 * r), join_digits(low, high, row_sum)));
      }
    }
    return x;
  }

  /// Rows of sums without their padding, which the next row overwrites.
  static std::byte* store_records(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                                  std::byte* out) {
    constexpr std::size_t kRowBytes = kSide * sizeof(std::uint32_t);
    for (std::uint32_t x = 0; x < count; ++x, sums += kSumElements) {
      const BlockIndex at{.i = row, .j = first_col + x};  // overwritten by the next record unless a sum is not zero
      std::memcpy(out, &at, kHeadBytes);
      __m256i any = _mm256_setzero_si256();
      for (std::size_t r = 0; r < kSide; ++r) {
        const __m256i values = load(sums + 8 * r);
        any = _mm256_or_si256(any, values);
        std::byte* const to = out + kHeadBytes + r * kRowBytes;
        if (r + 1 < kSide) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), values);
        } else {
          std::memcpy(to, sums + 8 * r, kRowBytes);
        }
        store(sums + 8 * r, _mm256_setzero_si256());
      }
      out += _mm256_testz_si256(any, any) == 0 ? kHeadBytes + kSide * kRowBytes : 0;
    }
    return out;
  }

  static AccumulatorKernel kernel() {
    return {.sum_elements = kSumElements,
            .sums_bytes = kSumsBytes,
            .least_pairs = plan::least_summed_pairs(Isa::avx2, kSide),
            .add = add<Sums::plain>,
            .add_clamped = add<Sums::clamped>,
            .add_wide = add_wide,
            .store = store_records};
  }
};

/// Sums of side 4 lie as records have them.
std::byte* store_4(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                   std::byte* out) {
  constexpr std::size_t kElements = 16;
  for (std::uint32_t x = 0; x < count; ++x, sums += kElements) {
    const BlockIndex at{.i = row, .j = first_col + x};  // overwritten by the next record unless a sum is not zero
    std::memcpy(out, &at, kHeadBytes);
    __m256i any = _mm256_setzero_si256();
    for (std::size_t e = 0; e < kElements; e += 8) {
      const __m256i values = load(sums + e);
      any = _mm256_or_si256(any, values);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + kHeadBytes + e * sizeof(std::uint32_t)), values);
      store(sums + e, _mm256_setzero_si256());
    }
    out += _mm256_testz_si256(any, any) == 0 ? kHeadBytes + kElements * sizeof(std::uint32_t) : 0;
  }
  return out;
}

}  // namespace

AccumulatorKernel avx2_accumulator(const PackedShape& shape) {
  switch (shape.m) {
    case 4:
      return {.sum_elements = 16,
              .sums_bytes = kSide4SumsBytes,
              .least_pairs = plan::least_summed_pairs(Isa::avx2, 4),
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

AccumulatorKernel avx2_accumulator(const PackedShape&) {
  return {};
}

}  // namespace spmm::cpu

#endif
