// How many C blocks a product has, and how long its rows are, from a few of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"
#include "plan/inputs/statistics.hpp"

namespace spmm::cpu {

struct CBlockEstimate {
  double c_blocks = 0;
  std::vector<plan::RowShape> rows{};  ///< the sampled ones: one twice if it has twice as many pairs as others
};

/// Rows are sampled at equal distances in the list of all pairs; the blocks of each per pair stand for its part of the
/// pairs. Zero blocks count. Values: A linked to B; row_pairs [a.num_rows()] exact. Memory: some MB at most.
CBlockEstimate estimate_c_blocks(const PackedOperand& a, const PackedOperand& b,
                                 std::span<const std::uint64_t> row_pairs, std::uint32_t blocks_per_side,
                                 const Run& run);

}  // namespace spmm::cpu
