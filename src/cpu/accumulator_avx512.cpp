// Sums of rows of C for AVX-512 with VNNI, sides 4 and 8.
#include "cpu/accumulator_kernel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

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

namespace spmm::cpu {
namespace {

constexpr std::size_t kHeadBytes = sizeof(BlockIndex);

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

/// Side 4: the sums of a block are one register, a lane per row.
std::uint32_t add_4(const std::uint16_t* a, const std::uint16_t* b, const std::uint32_t* cols, std::uint32_t count,
                    std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
  const __m512i spread0 = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
  const __m512i spread1 = _mm512_add_epi32(spread0, _mm512_set1_epi32(1));
  const __m512i block = _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(a)));
  const __m512i a0 = _mm512_permutexvar_epi32(spread0, block);
  const __m512i a1 = _mm512_permutexvar_epi32(spread1, block);
  std::uint32_t x = 0;
  for (; x < count && cols[x] < end_col; ++x) {
    std::uint32_t* const at = sums + (cols[x] - first_col) * std::size_t{16};
    __m512i sum = _mm512_load_si512(at);
    sum = _mm512_dpwssd_epi32(sum, a0, repeat(b + x * std::size_t{16}));
    sum = _mm512_dpwssd_epi32(sum, a1, repeat(b + x * std::size_t{16} + 8));
    _mm512_store_si512(at, sum);
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

/// Side 8: four registers, rows 0-3 and 4-7, columns 0-3 and 4-7 of each; a lane per row.
std::uint32_t add_8(const std::uint16_t* a, const std::uint16_t* b, const std::uint32_t* cols, std::uint32_t count,
                    std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
  const __m512i top = _mm512_load_si512(a);
  const __m512i bottom = _mm512_load_si512(a + 32);
  // Elements 2t, 2t + 1 of each row of A, for all columns of its lane.
  const __m512i a_top[4] = {_mm512_shuffle_epi32(top, static_cast<_MM_PERM_ENUM>(0x00)),
                            _mm512_shuffle_epi32(top, static_cast<_MM_PERM_ENUM>(0x55)),
                            _mm512_shuffle_epi32(top, static_cast<_MM_PERM_ENUM>(0xAA)),
                            _mm512_shuffle_epi32(top, static_cast<_MM_PERM_ENUM>(0xFF))};
  const __m512i a_bottom[4] = {_mm512_shuffle_epi32(bottom, static_cast<_MM_PERM_ENUM>(0x00)),
                               _mm512_shuffle_epi32(bottom, static_cast<_MM_PERM_ENUM>(0x55)),
                               _mm512_shuffle_epi32(bottom, static_cast<_MM_PERM_ENUM>(0xAA)),
                               _mm512_shuffle_epi32(bottom, static_cast<_MM_PERM_ENUM>(0xFF))};
  std::uint32_t x = 0;
  for (; x < count && cols[x] < end_col; ++x) {
    std::uint32_t* const at = sums + (cols[x] - first_col) * std::size_t{64};
    const std::uint16_t* const block = b + x * std::size_t{64};
    __m512i top_left = _mm512_load_si512(at);
    __m512i top_right = _mm512_load_si512(at + 16);
    __m512i bottom_left = _mm512_load_si512(at + 32);
    __m512i bottom_right = _mm512_load_si512(at + 48);
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) {
      const __m512i left = repeat(block + 16 * t);
      const __m512i right = repeat(block + 16 * t + 8);
      top_left = _mm512_dpwssd_epi32(top_left, a_top[t], left);
      top_right = _mm512_dpwssd_epi32(top_right, a_top[t], right);
      bottom_left = _mm512_dpwssd_epi32(bottom_left, a_bottom[t], left);
      bottom_right = _mm512_dpwssd_epi32(bottom_right, a_bottom[t], right);
    }
    _mm512_store_si512(at, top_left);
    _mm512_store_si512(at + 16, top_right);
    _mm512_store_si512(at + 32, bottom_left);
    _mm512_store_si512(at + 48, bottom_right);
  }
  return x;
}

std::byte* store_8(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                   std::byte* out) {
  constexpr std::size_t kRecord = kHeadBytes + 64 * sizeof(std::uint32_t);
  const __m512i rows_even = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i rows_odd = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i zero = _mm512_setzero_si512();
  for (std::uint32_t x = 0; x < count; ++x) {
    std::uint32_t* const at = sums + x * std::size_t{64};
    const __m512i top_left = _mm512_load_si512(at);
    const __m512i top_right = _mm512_load_si512(at + 16);
    const __m512i bottom_left = _mm512_load_si512(at + 32);
    const __m512i bottom_right = _mm512_load_si512(at + 48);
    for (std::size_t e = 0; e < 64; e += 16) _mm512_store_si512(at + e, zero);
    fetch_ahead<kRecord>(out);
    store_index(out, row, first_col + x);
    std::byte* const values = out + kHeadBytes;
    _mm512_storeu_si512(values, _mm512_permutex2var_epi64(top_left, rows_even, top_right));
    _mm512_storeu_si512(values + 64, _mm512_permutex2var_epi64(top_left, rows_odd, top_right));
    _mm512_storeu_si512(values + 128, _mm512_permutex2var_epi64(bottom_left, rows_even, bottom_right));
    _mm512_storeu_si512(values + 192, _mm512_permutex2var_epi64(bottom_left, rows_odd, bottom_right));
    const __m512i any =
        _mm512_or_si512(_mm512_or_si512(top_left, top_right), _mm512_or_si512(bottom_left, bottom_right));
    out += _mm512_test_epi32_mask(any, any) != 0 ? kRecord : 0;
  }
  return out;
}

}  // namespace

AccumulatorKernel avx512_vnni_accumulator(const PackedShape& shape, const Arithmetic& arithmetic) {
  if (arithmetic.wide) return {};
  if (shape.m == 4) return {.add = add_4, .store = store_4};
  if (shape.m == 8) return {.add = add_8, .store = store_8};
  return {};
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

AccumulatorKernel avx512_vnni_accumulator(const PackedShape&, const Arithmetic&) {
  return {};
}

}  // namespace spmm::cpu

#endif
