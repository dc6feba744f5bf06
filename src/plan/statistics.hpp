// What decisions know of the operands: expected from the headers, or counted.
#pragma once

#include <cstdint>

#include "plan/limits.hpp"
#include "plan/panels/panels.hpp"
#include "plan/panels/tile_panels.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// Of a product: expected from the headers, for evenly spread blocks, or exact once pairs are counted.
struct Statistics {
  MatrixHeader a{};
  MatrixHeader b{};
  bool exact = false;
  bool sampled = false;  ///< pairs and C blocks are those of a sample of indices
  double num_pairs = 0;
  double num_c_blocks = 0;          ///< C blocks; exact: at most, the sum over rows of min(pairs, nb)
  std::uint64_t a_rows = 0;         ///< block rows of A that hold blocks (exact on the CPU: that have pairs); at most
  std::uint64_t b_rows = 0;         ///< block rows of B that hold blocks, at most
  std::uint32_t a_span = kAnySpan;  ///< block rows from the first to the last with blocks of A, at most
  std::uint32_t b_columns = 0;      ///< block columns of B that hold blocks; 0 = not known
  std::uint32_t c_columns_end = 0;  ///< CUDA: block columns of B up to the last one with a block; 0 = not known
  std::uint32_t max_element = 65'535;  ///< of both operands, at most
  RowPairs row_pairs{};                ///< exact, CUDA: pairs of each run of rows
  TileCounts tiles{};                  ///< exact, CUDA, where an execution wanted them

  [[nodiscard]] std::uint32_t m() const { return a.m; }
  [[nodiscard]] std::uint32_t nb() const { return a.blocks_per_side(); }
  /// Block columns that C may reach: those of B are narrow where a rectangular matrix was padded to a square.
  [[nodiscard]] std::uint32_t c_columns() const { return c_columns_end == 0 ? nb() : c_columns_end; }
  [[nodiscard]] std::uint64_t num_blocks() const { return std::uint64_t{a.num_blocks} + b.num_blocks; }
};

/// Statistics of evenly spread blocks, elements up to the largest u16. Values: num_rows = block rows of A among which
/// its blocks are spread; 0 = all.
Statistics expected_statistics(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t num_rows = 0);

/// Statistics of these block rows of the product, where `a` is the header of all of A.
Statistics expected_of_rows(MatrixHeader a, const MatrixHeader& b, RowRange rows);

}  // namespace spmm::plan
