// How many C blocks a product has, from a few of its rows.
#pragma once

#include <cstdint>
#include <span>

#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"

namespace spmm::cpu {

/// Rows are sampled at equal distances in the list of all pairs; the blocks of each per pair stand for its part of the
/// pairs. Zero blocks count. Values: A linked to B; row_pairs [a.num_rows()] exact. Memory: some MB at most.
double estimate_c_blocks(const PackedOperand& a, const PackedOperand& b, std::span<const std::uint64_t> row_pairs,
                         std::uint32_t blocks_per_side, const Run& run);

}  // namespace spmm::cpu
