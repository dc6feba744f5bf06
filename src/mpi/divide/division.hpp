// Who computes which block rows of C.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mpi/exchange/b_rows.hpp"
#include "mpi/exchange/row_ranges.hpp"
#include "mpi/exchange/transfers.hpp"

namespace spmm::mpi {

/// C cut into num_rounds ranges for each rank, numbered in the order of the rows. Ranks have ranges in turns: range x
/// is that of rank x % num_ranks. Equal on all ranks.
struct Division {
  std::uint32_t num_ranks = 1;
  std::vector<std::uint32_t> borders;  ///< first rows of the ranges 1 ..
  std::uint32_t num_rounds = 1;
  std::uint64_t pairs = 0;                       ///< of the whole product
  std::uint64_t max_c_blocks = 0;                ///< no range of the division has more
  std::vector<std::uint64_t> pairs_of_ranks;     ///< [ranks]
  std::vector<std::uint64_t> c_blocks_of_ranks;  ///< [ranks], at most

  [[nodiscard]] std::uint32_t range_of(std::uint32_t row) const { return part_of(borders, row); }
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t row) const { return range_of(row) % num_ranks; }
  [[nodiscard]] std::uint32_t round_of(std::uint32_t row) const { return range_of(row) / num_ranks; }
};

/// Weight of all rows, and of those of earlier ranks.
struct Standing {
  std::uint64_t weight_before = 0;
  std::uint64_t weight = 0;
};
/// Collective.
Standing standing_of(const Group& group, std::span<const RowWork> rows);

/// Block indices of this rank's share of A. Errors: FormatError (index out of range), what the source throws.
std::vector<BlockIndex> read_indices(const Group& group, const Source& a);

/// Work of the block rows of C, each row on one rank, and all rows of a rank before those of the next one. Nothing is
/// proportional to n / m: rows are kept between samples of all ranks. Collective.
/// Values: indices = read_indices(), samples = sampled_rows() of A, b_rows sorted.
std::vector<RowWork> count_rows(const Group& group, std::span<const BlockIndex> indices,
                                const std::vector<std::uint32_t>& samples, const BRows& b_rows,
                                std::uint32_t blocks_per_side);

/// Cuts C by exact pairs, into as few rounds as keep every range at wanted_c_blocks, where rows allow it, and at least
/// min_rounds. Collective. Values: rows = count_rows(), num_columns = block columns that C may fill.
Division divide(const Group& group, std::span<const RowWork> rows, std::uint64_t num_columns,
                std::uint64_t wanted_c_blocks, std::uint32_t min_rounds);

}  // namespace spmm::mpi
