// The place of each key of a short row among the others, by comparing each with each: no counters, no branches.
#pragma once

#include <cstdint>

#include "cpu/simd/isa.hpp"

namespace spmm::cpu {

/// Keys of a row up to which it is ranked. A sort by digits of as many takes about as long.
inline constexpr std::uint32_t kMaxRankedKeys = 128;
inline constexpr std::uint32_t kRankLanes = 16;

/// Fills ranks with the number of keys that are smaller than each. Values: count <= kMaxRankedKeys; keys < 2^31.
/// Shapes: keys, ranks [count rounded up to a multiple of kRankLanes], beyond count any keys.
using RankKeys = void (*)(const std::uint32_t* keys, std::uint32_t count, std::uint32_t* ranks);
RankKeys choose_rank_keys(Isa isa);

}  // namespace spmm::cpu
