// The kernels for AVX2: vpmaddwd makes 8 sums of two products of 16-bit elements.
#include "cpu/simd/avx2.hpp"

#if defined(__x86_64__)
#include "cpu/simd/block_kernels.hpp"
#include "cpu/simd/tile_kernels.hpp"

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

/// Records of side 1 are words of the row, of a column and of a sum in turns, eight records three vectors. For each set
/// of lanes that are not zero: the lane that each word of the column or of the sum comes from.
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

/// Vector kPart of the records of eight sums.
template <unsigned kPart>
inline void store_part(const std::uint8_t (*lanes)[8], __m256i row, __m256i columns, __m256i sums, std::byte* out) {
  constexpr int kColumns = words_of(kPart, 1);
  constexpr int kValues = words_of(kPart, 2);
  const __m256i from = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes[kPart])));
  const __m256i index = _mm256_blend_epi32(row, _mm256_permutevar8x32_epi32(columns, from), kColumns);
  const __m256i values = _mm256_permutevar8x32_epi32(sums, from);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + kPart, _mm256_blend_epi32(index, values, kValues));
}

/// Records of the sums that are not zero, without a branch for each: what is beyond them is overwritten. Values: row in
/// all lanes. Shapes: out has room for eight records. Returns the end of the records.
inline std::byte* store_records(__m256i row, __m256i columns, __m256i sums, std::byte* out) {
  const __m256i zero = _mm256_cmpeq_epi32(sums, _mm256_setzero_si256());
  const auto set = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(zero))) ^ 0xFF;
  store_part<0>(kRecordLanes.lanes[set], row, columns, sums, out);
  store_part<1>(kRecordLanes.lanes[set], row, columns, sums, out);
  store_part<2>(kRecordLanes.lanes[set], row, columns, sums, out);
  return out + static_cast<std::size_t>(std::popcount(set)) * output_record_bytes(1);
}

/// write_tiles() for side 1.
std::byte* write_elements(const TileRow& row, const TileSums& sums, std::byte* out) {
  const __m256i of_row = _mm256_set1_epi32(static_cast<int>(row.row));
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (std::uint32_t x = 0; x < row.count; ++x) {
    const std::uint32_t slot = slot_of(row, x, sums);
    auto* const tile = reinterpret_cast<__m256i*>(sums.values + std::size_t{slot} * kTileLanes);
    const __m256i first = _mm256_set1_epi32(static_cast<int>(row.tiles[x] * kTileLanes));
    out = store_records(of_row, _mm256_add_epi32(first, lanes), _mm256_load_si256(tile), out);
    _mm256_store_si256(tile, _mm256_setzero_si256());
    sums.fresh[slot] = 1;
  }
  return out;
}

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END

namespace spmm::cpu {

bool avx2_available() {
  return __builtin_cpu_supports("avx2");
}

MultiplyCBlocks avx2_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  return block_kernel(shape, arithmetic);
}

AccumulatorKernel avx2_accumulator(const PackedShape& shape) {
  return accumulator_kernel(shape, Isa::avx2);
}

TileKernel avx2_tile_kernel(std::uint32_t m) {
  TileKernel kernel = tile_kernel_for(m);
  if (m == 1) kernel.write = write_elements;
  return kernel;
}

}  // namespace spmm::cpu
#endif
