// Who takes which part of the inner dimension, and what that would save.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mpi/divide/division.hpp"
#include "mpi/divide/inner_split.hpp"
#include "mpi/exchange/b_rows.hpp"

namespace spmm::mpi {

/// Block columns of C that any block of B lies in. Collective.
std::uint64_t count_columns(const Group& group, const BRows& b_rows, std::uint32_t blocks_per_side);

/// The inner dimension cut into as many ranges of equal weight (pairs and blocks of A) as there are ranks.
struct InnerDivision {
  std::vector<std::uint32_t> borders;  ///< first inner block indices of the ranks 1 ..
  SplitCounts counts;
  Division sums;  ///< of C: who adds up which ranges of the partial products
};

/// What the choice is made from. Shapes: indices = this rank's share of A, rows = count_rows().
struct SplitQuestion {
  std::span<const BlockIndex> indices;
  std::span<const RowWork> rows;
  std::uint64_t num_columns = 0;
  const BRows& b_rows;
  const Division& by_rows;
  MatrixHeader b{};
  std::uint64_t stored_bytes = 0;
  std::uint64_t limit_bytes = 0;
  std::uint64_t range_bytes = 0;  ///< of C that arrive at a rank in one round
  unsigned num_threads = 1;
};

/// The division of the inner dimension, where splits_inner() prefers it; pairs of each inner index and fetched blocks
/// are counted only if it may. Policy::division may decide instead; memory limits hold all the same. Collective.
std::optional<InnerDivision> choose_inner(const Group& group, const SplitQuestion& question);

}  // namespace spmm::mpi
