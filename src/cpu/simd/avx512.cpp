// The kernels for AVX-512 with VNNI: vpdpwssd adds 32 products of 16-bit elements to 16 sums.
#include "cpu/simd/avx512.hpp"

#if defined(__x86_64__)
#include "cpu/simd/block_kernels.hpp"
#include "cpu/simd/tile_kernels.hpp"

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

/// Records of side 1: words of the row, of a column and of a sum in turns, 16 records three vectors. Returns vector
/// `part`. Shapes: columns, sums side by side.
inline __m512i deal_records(__m512i row, __m512i columns, __m512i sums, std::uint32_t part) {
  static constexpr std::uint16_t kMasks[3] = {0b0110'1101'1011'0110, 0b1011'0110'1101'1011, 0b1101'1011'0110'1101};
  alignas(64) static constexpr std::uint32_t kOrders[3][16] = {
      {0, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0},
      {5, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10},
      {26, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31}};
  const __mmask16 words = kMasks[part];
  const __m512i order = _mm512_mask_mov_epi32(row, words, _mm512_load_si512(kOrders[part]));
  return _mm512_mask2_permutex2var_epi32(columns, order, words, sums);
}

/// write_tiles() for side 1, two tiles at a time.
std::byte* write_elements(const TileRow& row, const TileSums& sums, std::byte* out) {
  const __m512i of_row = _mm512_set1_epi32(static_cast<int>(row.row));
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
  for (std::uint32_t x = 0; x < row.count; x += 2) {
    const std::uint32_t y = std::min(x + 1, row.count - 1);
    const std::uint32_t first = slot_of(row, x, sums);
    const std::uint32_t second = slot_of(row, y, sums);
    auto* const of_first = reinterpret_cast<__m256i*>(sums.values + first * std::size_t{kTileLanes});
    auto* const of_second = reinterpret_cast<__m256i*>(sums.values + second * std::size_t{kTileLanes});
    const __m512i values =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_load_si256(of_first)), _mm256_load_si256(of_second), 1);
    const __m512i tiles = _mm512_inserti64x4(_mm512_set1_epi32(static_cast<int>(row.tiles[x])),
                                             _mm256_set1_epi32(static_cast<int>(row.tiles[y])), 1);
    _mm256_store_si256(of_first, _mm256_setzero_si256());
    _mm256_store_si256(of_second, _mm256_setzero_si256());
    sums.fresh[first] = 1;
    sums.fresh[second] = 1;
    const __mmask16 lanes = _mm512_mask_test_epi32_mask(x == y ? 0x00FF : 0xFFFF, values, values);
    const __m512i columns = _mm512_add_epi32(_mm512_slli_epi32(tiles, 3), lane);
    const __m512i side_by_side = _mm512_maskz_compress_epi32(lanes, columns);
    const __m512i of_columns = _mm512_maskz_compress_epi32(lanes, values);
    const std::uint32_t words = 3 * static_cast<std::uint32_t>(std::popcount(static_cast<unsigned>(lanes)));
    for (std::uint32_t part = 0; part < 3; ++part) {
      const __m512i records = deal_records(of_row, side_by_side, of_columns, part);
      if (x + 2 < row.count) {
        _mm512_storeu_si512(out + part * sizeof records, records);  // what lies beyond the records is overwritten
      } else {
        const std::uint32_t here = words - std::min(words, 16 * part);
        _mm512_mask_storeu_epi32(out + part * sizeof records, static_cast<__mmask16>((1ull << here) - 1), records);
      }
    }
    out += words * sizeof(std::uint32_t);
  }
  return out;
}

/// Side 3: a record is one vector of 11 words.
std::byte* write_blocks_of_3(const TileRow& row, const TileSums& sums, std::byte* out) {
  constexpr __mmask16 kRecord = 0x07FF;
  const __m512i first_block = _mm512_setr_epi32(0, 0, 0, 1, 2, 8, 9, 10, 16, 17, 18, 0, 0, 0, 0, 0);
  for (std::uint32_t x = 0; x < row.count; ++x) {
    const std::uint32_t slot = slot_of(row, x, sums);
    std::uint32_t* const tile = sums.values + slot * std::size_t{3} * kTileLanes;
    auto* const rows = reinterpret_cast<__m256i*>(tile);
    const __m256i last_row = _mm256_load_si256(rows + 2);
    const __m512i upper_rows =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_load_si256(rows)), _mm256_load_si256(rows + 1), 1);
    const __m256i any =
        _mm256_or_si256(_mm256_or_si256(_mm256_load_si256(rows), _mm256_load_si256(rows + 1)), last_row);
    const std::uint32_t lanes = _mm256_test_epi32_mask(any, any);
    for (std::uint32_t block = 0; block < 2; ++block) {
      const BlockIndex at{.i = row.row, .j = row.tiles[x] * 2 + block};
      const __m512i order = _mm512_add_epi32(first_block, _mm512_set1_epi32(static_cast<int>(4 * block)));
      const __m512i values = _mm512_permutex2var_epi32(upper_rows, order, _mm512_castsi256_si512(last_row));
      _mm512_mask_storeu_epi32(out, kRecord, values);
      std::memcpy(out, &at, sizeof at);
      out += (lanes >> (4 * block) & 7) != 0 ? output_record_bytes(3) : 0;
    }
    for (std::uint32_t r = 0; r < 3; ++r) _mm256_store_si256(rows + r, _mm256_setzero_si256());
    sums.fresh[slot] = 1;
  }
  return out;
}

/// Sides 2 and 3, two products at once: of the first two rows of B, then of the third one.
template <std::uint32_t kSide, bool kSaturates, bool kLists>
std::uint32_t add_paired(const TileSegment* segments, std::uint32_t count, const TileSums& sums,
                         std::uint32_t num_touched) {
  constexpr std::uint32_t kElements = kSide * kTileLanes;
  std::uint32_t* const touched = sums.touched;
  std::uint8_t* const fresh = sums.fresh;
  std::uint32_t* const values = sums.values;
  const std::uint32_t base = sums.base;
  for (std::uint32_t s = 0; s < count; ++s) {
    const TileSegment& segment = segments[s];
    if (s + kSegmentsAhead < count) {
      __builtin_prefetch(segments[s + kSegmentsAhead].slots);
      __builtin_prefetch(segments[s + kSegmentsAhead].b);
    }
    __m256i factors[kSide];  // the first two elements of each row of A
    __m256i third_factors[kSide];
    for (std::uint32_t r = 0; r < kSide; ++r) {
      std::int32_t both = 0;
      std::memcpy(&both, segment.a + std::size_t{r} * kSide, sizeof both);
      factors[r] = _mm256_set1_epi32(both);
      if constexpr (kSide == 3) third_factors[r] = _mm256_set1_epi32(segment.a[r * kSide + 2]);
    }
    const std::uint16_t* b = segment.b;
    const std::uint32_t* const slots = segment.slots;
    const std::uint32_t num_tiles = segment.count;
    for (std::uint32_t y = 0; y < num_tiles; ++y, b += kElements) {
      const std::uint32_t slot = slots[y] - base;
      if constexpr (kLists) {
        touched[num_touched] = slot;  // overwritten unless it is fresh
        num_touched += fresh[slot];
      }
      fresh[slot] = 0;
      auto* const tile = reinterpret_cast<__m256i*>(values + std::size_t{slot} * kElements);
      const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
      __m256i third = _mm256_setzero_si256();
      if constexpr (kSide == 3) {
        third =
            _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + std::size_t{2} * kTileLanes)));
      }
      for (std::uint32_t r = 0; r < kSide; ++r) {
        const __m256i before = _mm256_load_si256(tile + r);
        __m256i sum = _mm256_dpwssd_epi32(kSaturates ? _mm256_setzero_si256() : before, factors[r], both);
        if constexpr (kSide == 3) sum = _mm256_dpwssd_epi32(sum, third_factors[r], third);
        if constexpr (kSaturates) {
          const __m256i all = _mm256_add_epi32(before, sum);
          sum = _mm256_mask_set1_epi32(all, _mm256_cmplt_epu32_mask(all, sum), -1);
        }
        _mm256_store_si256(tile + r, sum);
      }
    }
  }
  return num_touched;
}

template <std::uint32_t kSide>
void take_paired(TileKernel& kernel) {
  kernel.add[0][0] = add_paired<kSide, false, false>;
  kernel.add[0][1] = add_paired<kSide, false, true>;
  kernel.add[1][0] = add_paired<kSide, true, false>;
  kernel.add[1][1] = add_paired<kSide, true, true>;
  kernel.paired = true;
}

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END

namespace spmm::cpu {

bool avx512_vnni_available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

MultiplyCBlocks avx512_vnni_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  return block_kernel(shape, arithmetic);
}

AccumulatorKernel avx512_vnni_accumulator(const PackedShape& shape) {
  return accumulator_kernel(shape, Isa::avx512_vnni);
}

TileKernel avx512_tile_kernel(std::uint32_t m, std::uint32_t max_element) {
  TileKernel kernel = tile_kernel_for(m);
  if (m == 1) kernel.write = write_elements;
  if (m == 3) kernel.write = write_blocks_of_3;
  if (max_element > kMaxPairedElement) return kernel;
  if (m == 2) take_paired<2>(kernel);
  if (m == 3) take_paired<3>(kernel);
  return kernel;
}

}  // namespace spmm::cpu
#endif
