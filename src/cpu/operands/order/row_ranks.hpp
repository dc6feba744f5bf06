// The place of each key of a short row among the others, by comparing each with each: no counters, no branches.
#pragma once

#include <cstdint>

#include "cpu/simd/isa.hpp"

namespace spmm::cpu {

/// Keys of a row up to which it is ranked. A sort by digits of as many takes about as long.
inline constexpr std::uint32_t kMaxRankedKeys = 128;

/// Shapes: keys, ranks [count rounded up to a multiple of kRankLanes]. Values: count <= kMaxRankedKeys; keys
/// < 2^31, what fills them up anything. Fills ranks with how many of the keys are smaller than each;
/// returns their sum, which is count * (count - 1) / 2 where no key occurs twice, and less where one does.
using RankKeys = std::uint32_t (*)(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks);
inline constexpr std::uint32_t kRankLanes = 16;

RankKeys choose_rank_keys(Isa isa);

}  // namespace spmm::cpu
