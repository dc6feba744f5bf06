// The kernels for small blocks for AVX-512.
#include <bit>
#include <cstring>

#include "cpu/simd/tile_kernel.hpp"
#include "plan/panels/tiles.hpp"
#include "spmm/types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,popcnt,bmi")
// False alarm of GCC 12 about its own intrinsics (undefined sources of unmasked operations).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "cpu/simd/avx512/element_stage.hpp"

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

/// A bit per byte that is 0. Shapes: bytes [64].
inline std::uint64_t zero_bytes(const std::uint8_t* bytes) {
  const __m512i values = _mm512_loadu_si512(bytes);
  return _mm512_testn_epi8_mask(values, values);
}

/// Tiles of side 1, two at a time.
std::byte* write_elements(const TileRow& row, const TileSums& sums, std::byte* out) {
  constexpr __mmask16 kSecond = 0xFF00;
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
  ElementStage stage(row.row, out);
  for (std::uint32_t x = 0; x < row.count; x += 2) {
    const bool has_second = x + 1 < row.count;
    const std::uint32_t y = has_second ? x + 1 : x;
    const std::uint32_t first = slot_of(row, x, sums);
    const std::uint32_t second = slot_of(row, y, sums);
    auto* const of_first = reinterpret_cast<__m256i*>(sums.values + first * std::size_t{plan::kTileLanes});
    auto* const of_second = reinterpret_cast<__m256i*>(sums.values + second * std::size_t{plan::kTileLanes});
    const __m512i values =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_load_si256(of_first)), _mm256_load_si256(of_second), 1);
    const __m512i tiles = _mm512_mask_set1_epi32(_mm512_set1_epi32(static_cast<int>(row.tiles[x])), kSecond,
                                                 static_cast<int>(row.tiles[y]));
    _mm256_store_si256(of_first, _mm256_setzero_si256());
    _mm256_store_si256(of_second, _mm256_setzero_si256());
    sums.fresh[first] = 1;
    sums.fresh[second] = 1;
    stage.add(_mm512_add_epi32(_mm512_slli_epi32(tiles, 3), lane), values,
              _mm512_mask_test_epi32_mask(has_second ? 0xFFFF : 0x00FF, values, values));
  }
  return stage.finish();
}

/// list_touched() without a branch for each slot.
std::uint32_t list_compressed(const TileSums& sums, std::uint32_t begin, std::uint32_t end) {
  constexpr std::uint32_t kLanes = 16;
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  std::uint32_t count = 0;
  for (std::uint32_t first = begin; first < end; first += kScannedSlots) {
    std::uint64_t slots = zero_bytes(sums.fresh + first);
    if (end - first < kScannedSlots) slots &= (std::uint64_t{1} << (end - first)) - 1;
    if (slots == 0) continue;
    for (std::uint32_t x = 0; x < kScannedSlots; x += kLanes, slots >>= kLanes) {
      const __m512i numbers = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(sums.base + first + x)));
      const auto here = static_cast<__mmask16>(slots);
      _mm512_storeu_si512(sums.touched + count, _mm512_maskz_compress_epi32(here, numbers));
      count += static_cast<std::uint32_t>(std::popcount(static_cast<unsigned>(here)));
    }
  }
  return count;
}

/// Of four blocks of side 2 those that are not zero, three words of 64 bits each: the index (16 to 19 of two vectors of
/// words), the upper row (0 to 3) and the lower one (4 to 7).
struct BlockOrder {
  alignas(64) std::uint64_t words[16][12];
};
constexpr BlockOrder make_block_order() {
  BlockOrder order{};
  for (unsigned blocks = 0; blocks < 16; ++blocks) {
    unsigned next = 0;
    for (unsigned block = 0; block < 4; ++block) {
      if ((blocks >> block & 1) == 0) continue;
      order.words[blocks][next++] = 8 + block;
      order.words[blocks][next++] = block;
      order.words[blocks][next++] = 4 + block;
    }
  }
  return order;
}
constexpr BlockOrder kBlockOrder = make_block_order();

/// Tile x of a row of side 2. Returns the end of the records.
inline std::byte* write_tile_of_2(const TileRow& row, std::uint32_t x, const TileSums& sums, std::byte* out) {
  const std::uint32_t slot = slot_of(row, x, sums);
  std::uint32_t* const at = sums.values + slot * std::size_t{2 * plan::kTileLanes};
  const __m512i values = _mm512_loadu_si512(at);
  const __m256i any = _mm256_or_si256(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1));
  const std::uint32_t blocks = _mm256_test_epi64_mask(any, any);
  const std::uint64_t first = std::uint64_t{row.tiles[x]} * 4 << 32 | row.row;
  const __m512i index = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first)),
                                         _mm512_setr_epi64(0, 1LL << 32, 2LL << 32, 3LL << 32, 0, 0, 0, 0));
  const std::uint64_t* const order = kBlockOrder.words[blocks];
  const __m256i tail = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(order + 8));
  _mm512_storeu_si512(out, _mm512_permutex2var_epi64(values, _mm512_loadu_si512(order), index));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 64),
                      _mm512_castsi512_si256(_mm512_permutex2var_epi64(values, _mm512_castsi256_si512(tail), index)));
  _mm512_storeu_si512(at, _mm512_setzero_si512());
  sums.fresh[slot] = 1;
  return out + static_cast<std::size_t>(std::popcount(blocks)) * output_record_bytes(2);
}

std::byte* write_blocks_of_2(const TileRow& row, const TileSums& sums, std::byte* out) {
  for (std::uint32_t x = 0; x < row.count; ++x) out = write_tile_of_2(row, x, sums, out);
  return out;
}

/// Side 3: a record is one vector of 11 words.
std::byte* write_blocks_of_3(const TileRow& row, const TileSums& sums, std::byte* out) {
  constexpr __mmask16 kRecord = 0x07FF;
  const __m512i first_block = _mm512_setr_epi32(0, 0, 0, 1, 2, 8, 9, 10, 16, 17, 18, 0, 0, 0, 0, 0);
  for (std::uint32_t x = 0; x < row.count; ++x) {
    const std::uint32_t slot = slot_of(row, x, sums);
    std::uint32_t* const tile = sums.values + slot * std::size_t{3 * plan::kTileLanes};
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

}  // namespace
}  // namespace spmm::cpu

#include "cpu/simd/tile_sums.hpp"

namespace spmm::cpu {

namespace {

/// Sides 2 and 3, two products at once: of the first two rows of B, then of the third one.
template <std::uint32_t kSide, bool kSaturates, bool kLists>
std::uint32_t add_paired(const TileSegment* segments, std::uint32_t count, const TileSums& sums,
                         std::uint32_t num_touched) {
  constexpr std::uint32_t kElements = kSide * plan::kTileLanes;
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
      std::memcpy(&both, segment.a + r * kSide, sizeof both);
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
        third = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 2 * plan::kTileLanes)));
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

TileKernel avx512_tile_kernel(std::uint32_t m, std::uint32_t max_element) {
  TileKernel kernel = tile_kernel_for(m);
  kernel.list = list_compressed;
  if (m == 1) kernel.write = write_elements;
  if (m == 2) kernel.write = write_blocks_of_2;
  if (m == 3) kernel.write = write_blocks_of_3;
  if (max_element > kMaxPairedElement) return kernel;
  if (m == 2) take_paired<2>(kernel);
  if (m == 3) take_paired<3>(kernel);
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

TileKernel avx512_tile_kernel(std::uint32_t, std::uint32_t) {
  return {};
}

}  // namespace spmm::cpu

#endif
