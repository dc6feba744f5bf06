// Block rows cut into one range for each rank or device. A pure function.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "spmm/types.hpp"

namespace spmm::plan {

/// Cuts `rows` into `num_parts` ranges of equal weight. A border is put before or behind the run of rows that it falls
/// into, whichever is nearer. Without any weight, part 0 has all rows.
/// Shapes: weights of runs of 2^shift rows each, from row 0 on; result [num_parts + 1], ascending: where parts begin.
inline std::vector<std::uint32_t> cut_by_weight(std::span<const std::uint64_t> weights, unsigned shift, RowRange rows,
                                                std::uint32_t num_parts) {
  __extension__ using Wide = unsigned __int128;  // a weight times a number of parts
  Wide total = 0;
  for (const std::uint64_t weight : weights) total += weight;
  std::vector<std::uint32_t> begins = {rows.first};
  Wide before = 0;
  for (std::size_t x = 0; x < weights.size() && total != 0; ++x) {
    const Wide behind = before + weights[x];
    while (begins.size() < num_parts && total * begins.size() <= behind * num_parts) {
      const Wide target = total * begins.size();
      const bool is_nearer_before = target - before * num_parts < behind * num_parts - target;
      const std::uint64_t border = std::uint64_t{x + (is_nearer_before ? 0 : 1)} << shift;
      begins.push_back(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(border, rows.first, rows.end)));
    }
    before = behind;
  }
  begins.resize(num_parts + std::size_t{1}, rows.end);
  return begins;
}

}  // namespace spmm::plan
