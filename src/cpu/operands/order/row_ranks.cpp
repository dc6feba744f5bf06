#include "cpu/operands/order/row_ranks.hpp"

#include <cstring>

namespace spmm::cpu {
namespace {

using Lanes16 = std::int32_t __attribute__((vector_size(16)));
using Lanes32 = std::int32_t __attribute__((vector_size(32)));
using Lanes64 = std::int32_t __attribute__((vector_size(64)));

/// GCC 12 ignores vector_size of a parameter of the template.
template <class Lanes>
[[gnu::always_inline]] inline std::uint32_t rank(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  constexpr std::size_t kVectors = kRankLanes * sizeof(std::uint32_t) / sizeof(Lanes);
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
  std::uint32_t sum = 0;
  for (std::uint32_t x = 0; x < count; ++x) sum += ranks[x];
  return sum;
}

std::uint32_t rank_portable(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  return rank<Lanes16>(keys, count, ranks);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint32_t rank_avx2(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks) {
  return rank<Lanes32>(keys, count, ranks);
}

[[gnu::target("avx512f")]] std::uint32_t rank_avx512(const std::uint32_t* keys, std::uint32_t count,
                                                     std::uint32_t* ranks) {
  return rank<Lanes64>(keys, count, ranks);
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
