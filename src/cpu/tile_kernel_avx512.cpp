// The kernels for small blocks for AVX-512.
#include <bit>
#include <cstring>

#include "cpu/tile_kernel.hpp"
#include "plan/tiles.hpp"
#include "spmm/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi")
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace spmm::cpu {
namespace {

inline void widen(const Halves& from, Lanes& to) {
  to = reinterpret_cast<Lanes>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(from)));
}

/// A bit per lane that is not 0. Shapes: row [8].
inline std::uint32_t nonzero_lanes(const std::uint32_t* row) {
  const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  return _mm256_test_epi32_mask(values, values);
}

constexpr bool kWritesVectors = true;

/// Records of the lanes that are not 0: columns and values side by side, then dealt out behind the row, three words
/// each.
inline std::byte* write_vector(const std::uint32_t* row, BlockIndex first, std::byte* out) {
  const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  const __mmask8 lanes = _mm256_test_epi32_mask(values, values);
  const __m256i columns =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(static_cast<int>(first.j)));
  const __m512i pairs = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_compress_epi32(lanes, columns)),
                                           _mm256_maskz_compress_epi32(lanes, values), 1);
  const __m512i rows = _mm512_set1_epi32(static_cast<int>(first.i));
  const __m512i head = _mm512_setr_epi32(0, 0, 8, 0, 1, 9, 0, 2, 10, 0, 3, 11, 0, 4, 12, 0);
  const __m512i tail = _mm512_setr_epi32(5, 13, 0, 6, 14, 0, 7, 15, 0, 0, 0, 0, 0, 0, 0, 0);
  constexpr __mmask16 kHeadPairs = 0b0110'1101'1011'0110;  // all but words 0, 3, 6, 9, 12, 15
  constexpr __mmask16 kTailPairs = 0b1101'1011;            // all but words 2, 5
  _mm512_storeu_si512(out, _mm512_mask_permutexvar_epi32(rows, kHeadPairs, head, pairs));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 64),
                      _mm512_castsi512_si256(_mm512_mask_permutexvar_epi32(rows, kTailPairs, tail, pairs)));
  return out + static_cast<std::size_t>(std::popcount(static_cast<unsigned>(lanes))) * output_record_bytes(1);
}

}  // namespace
}  // namespace spmm::cpu

#include "cpu/tile_sums.hpp"

namespace spmm::cpu {

TileKernel avx512_tile_kernel(std::uint32_t m) {
  return tile_kernel_for(m);
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

TileKernel avx512_tile_kernel(std::uint32_t) {
  return {};
}

}  // namespace spmm::cpu

#endif
