#include "cpu/operands/order/row_ranks.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spmm::cpu {
namespace {

using Ints = std::int32_t __attribute__((vector_size(32)));

[[gnu::always_inline]] inline std::uint32_t sum_of(const std::uint32_t* ranks, std::uint32_t count) {
  std::uint32_t sum = 0;
  for (std::uint32_t x = 0; x < count; ++x) sum += ranks[x];
  return sum;
}

/// In vectors of 8 lanes that the compiler maps to what the machine has.
[[gnu::always_inline]] inline std::uint32_t rank_in_lanes(const std::uint32_t* keys, std::uint32_t count,
                                                          std::uint32_t* ranks) {
  constexpr std::uint32_t kLanes = sizeof(Ints) / sizeof(std::int32_t);
  for (std::uint32_t first = 0; first < count; first += 2 * kLanes) {
    Ints low;
    Ints high;
    std::memcpy(&low, keys + first, sizeof low);
    std::memcpy(&high, keys + first + kLanes, sizeof high);
    Ints rank_low{};
    Ints rank_high{};
    for (std::uint32_t x = 0; x < count; ++x) {
      const Ints key = Ints{} + static_cast<std::int32_t>(keys[x]);
      rank_low -= key < low;  // true is -1
      rank_high -= key < high;
    }
    std::memcpy(ranks + first, &rank_low, sizeof low);
    std::memcpy(ranks + first + kLanes, &rank_high, sizeof high);
  }
  return sum_of(ranks, count);
}

std::uint32_t rank_portable(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  return rank_in_lanes(keys, count, ranks);
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] std::uint32_t rank_avx2(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  return rank_in_lanes(keys, count, ranks);
}

[[gnu::target("avx512f")]] std::uint32_t rank_avx512(const std::uint32_t* keys, std::uint32_t count,
                                                     std::uint32_t* ranks) {
  const __m512i one = _mm512_set1_epi32(1);
  for (std::uint32_t first = 0; first < count; first += 2 * kRankLanes) {
    const bool has_second = first + kRankLanes < count;
    const __m512i low = _mm512_loadu_si512(keys + first);
    const __m512i high = _mm512_loadu_si512(keys + (has_second ? first + kRankLanes : first));
    __m512i rank_low = _mm512_setzero_si512();
    __m512i rank_high = _mm512_setzero_si512();
    for (std::uint32_t x = 0; x < count; ++x) {
      const __m512i key = _mm512_set1_epi32(static_cast<int>(keys[x]));
      rank_low = _mm512_mask_add_epi32(rank_low, _mm512_cmplt_epi32_mask(key, low), rank_low, one);
      rank_high = _mm512_mask_add_epi32(rank_high, _mm512_cmplt_epi32_mask(key, high), rank_high, one);
    }
    _mm512_storeu_si512(ranks + first, rank_low);
    if (has_second) _mm512_storeu_si512(ranks + first + kRankLanes, rank_high);
  }
  return sum_of(ranks, count);
}

#endif

}  // namespace

RankKeys choose_rank_keys(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) return rank_avx512;
  if (isa == Isa::avx2) return rank_avx2;
#endif
  static_cast<void>(isa);
  return rank_portable;
}

}  // namespace spmm::cpu
