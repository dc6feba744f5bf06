// Who computes which block rows of C.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/b_rows.hpp"
#include "dist/row_ranges.hpp"
#include "dist/transfers.hpp"

namespace spmm::dist {

/// C cut into num_rounds times as many ranges as there are ranks, in the order of the rows: range x is the part of rank
/// x % ranks in round x / ranks. Equal on all ranks.
struct Division {
  std::vector<std::uint32_t> borders;  ///< first rows of the ranges 1 ..
  std::uint32_t num_rounds = 1;
  std::uint64_t pairs = 0;         ///< of the whole product
  std::uint64_t max_c_blocks = 0;  ///< no range of the division has more

  [[nodiscard]] std::uint32_t range_of(std::uint32_t row) const { return part_of(borders, row); }
};

/// Block indices of this rank's share of A. Errors: FormatError (index out of range), what the source throws.
std::vector<BlockIndex> read_indices(const Group& group, const Source& a);

/// Cuts C by exact pairs, into as few rounds as keep every range at wanted_c_blocks, where rows allow it, and at least
/// min_rounds. Nothing is
/// proportional to n / m: each rank keeps the rows of its part of A, between samples of all ranks. Collective.
/// Values: indices = read_indices(), samples = sampled_rows() of A, b_rows sorted.
Division divide(const Group& group, std::span<const BlockIndex> indices, const std::vector<std::uint32_t>& samples,
                const BRows& b_rows, std::uint32_t blocks_per_side, std::uint64_t wanted_c_blocks,
                std::uint32_t min_rounds);

}  // namespace spmm::dist
