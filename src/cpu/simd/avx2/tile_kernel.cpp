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

/// Records of side 1 are words of the row, of a column and of a sum in turns, eight records three vectors. For each set
/// of lanes of a tile that are not zero: the lane that each word of the column or of the sum comes from; 0 for the row.
struct RecordLanes {
  std::uint8_t lanes[256][3][8];
};
constexpr RecordLanes make_record_lanes() {
  RecordLanes of{};
  for (unsigned set = 0; set < 256; ++set) {
    unsigned word = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      if ((set >> lane & 1) == 0) continue;
      for (unsigned field = 0; field < 3; ++field, ++word) {
        of.lanes[set][word / 8][word % 8] = static_cast<std::uint8_t>(field == 0 ? 0 : lane);
      }
    }
  }
  return of;
}
constexpr RecordLanes kRecordLanes = make_record_lanes();

/// Words of vector kPart that are fields kField.
constexpr int words_of(unsigned part, unsigned field) {
  int words = 0;
  for (unsigned w = 0; w < 8; ++w) words |= ((8 * part + w) % 3 == field ? 1 : 0) << w;
  return words;
}

/// Vector kPart of the records of a tile. Values: row, first_column, in all lanes.
template <unsigned kPart>
inline void store_records(const std::uint8_t (*lanes)[8], __m256i row, __m256i first_column, __m256i sums,
                          std::byte* out) {
  constexpr int kColumns = words_of(kPart, 1);
  constexpr int kValues = words_of(kPart, 2);
  const __m256i from = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes[kPart])));
  const __m256i index = _mm256_add_epi32(from, _mm256_blend_epi32(row, first_column, kColumns));
  const __m256i values = _mm256_permutevar8x32_epi32(sums, from);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + kPart, _mm256_blend_epi32(index, values, kValues));
}

/// write_tiles() for side 1, without a branch for each element: what is beyond the records of a tile is overwritten.
std::byte* write_elements(const TileRow& row, const TileSums& sums, std::byte* out) {
  const __m256i of_row = _mm256_set1_epi32(static_cast<int>(row.row));
  for (std::uint32_t x = 0; x < row.count; ++x) {
    const std::uint32_t slot = slot_of(row, x, sums);
    auto* const tile = reinterpret_cast<__m256i*>(sums.values + std::size_t{slot} * plan::kTileLanes);
    const __m256i values = _mm256_load_si256(tile);
    const std::uint32_t set = nonzero_lanes(reinterpret_cast<const std::uint32_t*>(tile));
    const __m256i first = _mm256_set1_epi32(static_cast<int>(row.tiles[x] * plan::kTileLanes));
    store_records<0>(kRecordLanes.lanes[set], of_row, first, values, out);
    store_records<1>(kRecordLanes.lanes[set], of_row, first, values, out);
    store_records<2>(kRecordLanes.lanes[set], of_row, first, values, out);
    _mm256_store_si256(tile, _mm256_setzero_si256());
    sums.fresh[slot] = 1;
    out += static_cast<std::size_t>(std::popcount(set)) * output_record_bytes(1);
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
