#include "cpu/rows/rank.hpp"

#include <cstddef>
#include <cstring>

namespace spmm::cpu {
namespace {

/// Values: kVectorBytes = what the instruction set of the caller has.
template <std::size_t kVectorBytes>
[[gnu::always_inline]] inline void rank(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  typedef std::int32_t Lanes __attribute__((vector_size(kVectorBytes)));
  static_assert(sizeof(Lanes) == kVectorBytes);
  constexpr std::size_t kVectors = kRankLanes * sizeof(std::uint32_t) / kVectorBytes;
  for (std::uint32_t first = 0; first < count; first += kRankLanes) {
    Lanes lanes[kVectors];
    Lanes smaller[kVectors] = {};
    std::memcpy(lanes, keys + first, sizeof lanes);
    for (std::uint32_t x = 0; x < count; ++x) {
      const Lanes key = Lanes{} + static_cast<std::int32_t>(keys[x]);
      for (std::size_t v = 0; v < kVectors; ++v) smaller[v] -= key < lanes[v];  // true is -1
    }
    std::memcpy(ranks + first, smaller, sizeof smaller);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void rank_avx2(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  rank<32>(keys, count, ranks);
}
[[gnu::target("avx512f")]] void rank_avx512(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  rank<64>(keys, count, ranks);
}
#endif

}  // namespace

RankKeys choose_rank_keys(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) return rank_avx512;
  if (isa == Isa::avx2) return rank_avx2;
#endif
  static_cast<void>(isa);
  return rank<16>;
}

}  // namespace spmm::cpu
