// The kernels for small blocks for AVX2.
#include <bit>
#include <cstring>

#include "cpu/simd/tile_kernel.hpp"
#include "plan/panels/tiles.hpp"
#include "spmm/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,popcnt")
#endif

#include "cpu/simd/avx2/element_records.hpp"

namespace spmm::cpu {
namespace {

inline void widen(const Halves& from, Lanes& to) {
  to = reinterpret_cast<Lanes>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(from)));
}

/// A bit per lane that is not 0. Shapes: row [8].
inline std::uint32_t nonzero_lanes(const std::uint32_t* row) {
  const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  const __m256i zero = _mm256_cmpeq_epi32(values, _mm256_setzero_si256());
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(zero))) ^ 0xFF;
}

/// A bit per byte that is 0. Shapes: bytes [64].
inline std::uint64_t zero_bytes(const std::uint8_t* bytes) {
  const auto half = [&](std::size_t at) {
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + at));
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(values, _mm256_setzero_si256())));
  };
  return half(0) | std::uint64_t{half(32)} << 32;
}

/// write_tiles() for side 1.
std::byte* write_elements(const TileRow& row, const TileSums& sums, std::byte* out) {
  const __m256i of_row = _mm256_set1_epi32(static_cast<int>(row.row));
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (std::uint32_t x = 0; x < row.count; ++x) {
    const std::uint32_t slot = slot_of(row, x, sums);
    auto* const tile = reinterpret_cast<__m256i*>(sums.values + std::size_t{slot} * plan::kTileLanes);
    const __m256i first = _mm256_set1_epi32(static_cast<int>(row.tiles[x] * plan::kTileLanes));
    out = store_records(of_row, _mm256_add_epi32(first, lanes), _mm256_load_si256(tile), out);
    _mm256_store_si256(tile, _mm256_setzero_si256());
    sums.fresh[slot] = 1;
  }
  return out;
}

}  // namespace
}  // namespace spmm::cpu

#include "cpu/simd/tile_sums.hpp"

namespace spmm::cpu {

TileKernel avx2_tile_kernel(std::uint32_t m) {
  TileKernel kernel = tile_kernel_for(m);
  if (m == 1) kernel.write = write_elements;
  return kernel;
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

TileKernel avx2_tile_kernel(std::uint32_t) {
  return {};
}

}  // namespace spmm::cpu

#endif
