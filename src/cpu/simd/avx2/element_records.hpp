// Records of side 1 for AVX2.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

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

}  // namespace
}  // namespace spmm::cpu
