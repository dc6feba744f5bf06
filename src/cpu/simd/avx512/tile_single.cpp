// The kernels for small blocks one by one, for AVX-512 with VNNI: a vector holds all sums of a block of C.
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

namespace spmm::cpu {
namespace {

constexpr std::uint32_t kSegmentsAhead = 4;  // that are fetched: rows of B lie anywhere

/// Side 2: lane 2r + c is element (r, c); two products at once.
struct Side2 {
  using Sums = __m128i;
  Sums rows;  // of A's block: each next to itself

  explicit Side2(const std::uint16_t* a) {
    std::uint64_t elements = 0;
    std::memcpy(&elements, a, sizeof elements);
    rows = _mm_shuffle_epi32(_mm_cvtsi64_si128(static_cast<long long>(elements)), 0b01'01'00'00);
  }
  static Sums load(const std::uint32_t* from) { return _mm_load_si128(reinterpret_cast<const Sums*>(from)); }
  static void store(std::uint32_t* to, Sums sums) { _mm_store_si128(reinterpret_cast<Sums*>(to), sums); }
  static Sums zero() { return _mm_setzero_si128(); }
  [[nodiscard]] Sums add(Sums sums, const std::uint16_t* b) const {
    long long columns = 0;
    std::memcpy(&columns, b, sizeof columns);
    return _mm_dpwssd_epi32(sums, rows, _mm_set1_epi64x(columns));
  }
  static Sums add_clamped(Sums sums, Sums products) {
    const Sums sum = _mm_add_epi32(sums, products);
    return _mm_mask_set1_epi32(sum, _mm_cmplt_epu32_mask(sum, products), -1);
  }
  /// Returns the end of the record, if there is one.
  static std::byte* write(Sums sums, BlockIndex at, std::byte* out) {
    std::memcpy(out, &at, kIndexBytes);
    _mm_storeu_si128(reinterpret_cast<Sums*>(out + kIndexBytes), sums);
    return out + (_mm_test_epi32_mask(sums, sums) == 0 ? 0 : output_record_bytes(2));
  }
};

/// Side 3: lane 4r + c is element (r, c); two products at once, then the third.
struct Side3 {
  using Sums = __m512i;
  Sums rows;   // first two elements of each row of A's block, four times each
  Sums third;  // third one, and 0

  /// Four lanes a row.
  static Sums spread(std::uint32_t upper, std::uint32_t middle, std::uint32_t lower) {
    const Sums first = _mm512_maskz_set1_epi32(0x000F, static_cast<int>(upper));
    const Sums second = _mm512_mask_set1_epi32(first, 0x00F0, static_cast<int>(middle));
    return _mm512_mask_set1_epi32(second, 0x0F00, static_cast<int>(lower));
  }
  /// Four pairs of elements, for each row.
  static Sums four(const std::uint16_t* from) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  explicit Side3(const std::uint16_t* a) {
    std::uint32_t pairs[3];
    for (std::uint32_t r = 0; r < 3; ++r) std::memcpy(&pairs[r], a + 3 * r, sizeof pairs[r]);
    rows = spread(pairs[0], pairs[1], pairs[2]);
    third = spread(a[2], a[5], a[8]);
  }
  static Sums load(const std::uint32_t* from) { return _mm512_load_si512(from); }
  static void store(std::uint32_t* to, Sums sums) { _mm512_store_si512(to, sums); }
  static Sums zero() { return _mm512_setzero_si512(); }
  [[nodiscard]] Sums add(Sums sums, const std::uint16_t* b) const {
    return _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(sums, rows, four(b)), third, four(b + 8));
  }
  static Sums add_clamped(Sums sums, Sums products) {
    const Sums sum = _mm512_add_epi32(sums, products);
    return _mm512_mask_set1_epi32(sum, _mm512_cmplt_epu32_mask(sum, products), -1);
  }
  static std::byte* write(Sums sums, BlockIndex at, std::byte* out) {
    const Sums order = _mm512_setr_epi32(16, 17, 0, 1, 2, 4, 5, 6, 8, 9, 10, 0, 0, 0, 0, 0);
    const Sums index = _mm512_castsi128_si512(_mm_cvtsi64_si128(std::bit_cast<long long>(at)));
    constexpr __mmask16 kRecord = 0x07FF;
    _mm512_mask_storeu_epi32(out, kRecord, _mm512_permutex2var_epi32(sums, order, index));
    return out + (_mm512_test_epi32_mask(sums, sums) == 0 ? 0 : output_record_bytes(3));
  }
};
static_assert(sizeof(BlockIndex) == sizeof(long long));

template <class Side>
constexpr std::uint32_t kSums = sizeof(typename Side::Sums) / sizeof(std::uint32_t);

template <class Side, bool kSaturates, bool kLists>
std::uint32_t add_blocks(const TileSegment* segments, std::uint32_t count, const TileSums& sums,
                         std::uint32_t num_touched) {
  constexpr std::uint32_t kValues = kSums<Side>;
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
    const Side a(segment.a);
    const std::uint16_t* b = segment.b;
    const std::uint32_t* const slots = segment.slots;
    const std::uint32_t num_blocks = segment.count;
    for (std::uint32_t y = 0; y < num_blocks; ++y, b += kValues) {
      const std::uint32_t slot = slots[y] - base;
      if constexpr (kLists) {
        touched[num_touched] = slot;  // overwritten unless it is fresh
        num_touched += fresh[slot];
      }
      fresh[slot] = 0;
      std::uint32_t* const block = values + std::size_t{slot} * kSums<Side>;
      const auto before = Side::load(block);
      Side::store(block, kSaturates ? Side::add_clamped(before, a.add(Side::zero(), b)) : a.add(before, b));
    }
  }
  return num_touched;
}

template <class Side>
std::byte* write_blocks(const TileRow& row, const TileSums& sums, std::byte* out) {
  for (std::uint32_t x = 0; x < row.count; ++x) {
    const std::uint32_t slot = slot_of(row, x, sums);
    std::uint32_t* const block = sums.values + std::size_t{slot} * kSums<Side>;
    out = Side::write(Side::load(block), {.i = row.row, .j = row.tiles[x]}, out);
    Side::store(block, Side::zero());
    sums.fresh[slot] = 1;
  }
  return out;
}

template <class Side>
TileKernel single_kernel_of(std::uint32_t m) {
  TileKernel kernel = avx512_tile_kernel(m, kMaxPairedElement + 1);
  kernel.add[0][0] = add_blocks<Side, false, false>;
  kernel.add[0][1] = add_blocks<Side, false, true>;
  kernel.add[1][0] = add_blocks<Side, true, false>;
  kernel.add[1][1] = add_blocks<Side, true, true>;
  kernel.write = write_blocks<Side>;
  kernel.shape = plan::single_block(m);
  return kernel;
}

}  // namespace

TileKernel avx512_single_kernel(std::uint32_t m) {
  return m == 2 ? single_kernel_of<Side2>(m) : single_kernel_of<Side3>(m);
}

}  // namespace spmm::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else  // another machine: never asked for

namespace spmm::cpu {

TileKernel avx512_single_kernel(std::uint32_t) {
  return {};
}

}  // namespace spmm::cpu

#endif
