// Cuts the block rows of C into contiguous ranges of about equal work. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spmm::mpi {

/// Work of one block row of C.
struct RowWork {
  std::uint32_t row = 0;
  std::uint64_t pairs = 0;   ///< block products
  std::uint64_t blocks = 0;  ///< of A in the row

  /// What ranges are balanced by: a block is sorted and sent whether or not it meets anything.
  [[nodiscard]] std::uint64_t weight() const { return pairs + blocks; }
  /// C blocks at most. Values: num_columns = block columns that B may fill.
  [[nodiscard]] std::uint64_t max_c_blocks(std::uint64_t num_columns) const {
    return pairs < num_columns ? pairs : num_columns;
  }

  friend bool operator==(const RowWork&, const RowWork&) = default;
};

/// First rows of the parts 1 .. num_parts - 1, such that the samples are spread evenly over the parts.
/// Shapes: samples in any order, result [num_parts - 1], ascending. Values: num_parts >= 1.
std::vector<std::uint32_t> split_by_samples(std::vector<std::uint32_t> samples, std::uint32_t num_parts);

/// The part that a row belongs to. Shapes: first_rows as split_by_samples() gives them.
std::uint32_t part_of(std::span<const std::uint32_t> first_rows, std::uint32_t row);

/// Some of the borders between `num_ranges` ranges of equal weight: those that fall into these rows; 0 for all others.
/// A border is put before or behind the row it falls into, whichever is nearer, so no range weighs more than its share
/// and one row. The elementwise maximum over parts that hold all rows is the whole division.
/// Shapes: rows ascending, result [num_ranges - 1] (first rows of the ranges 1 .. num_ranges - 1, ascending).
/// Values: weight_before = of all rows of earlier parts, total = of all rows of all parts.
std::vector<std::uint32_t> borders_in(std::span<const RowWork> rows, std::uint64_t weight_before, std::uint64_t total,
                                      std::uint32_t num_ranges);

/// Adds up rows that are listed more than once. Shapes: rows in any order; the result is ascending.
std::vector<RowWork> merged(std::vector<RowWork> rows);

/// What the records of one step meet at most, where each step has so many rounds; what they meet more than once counts
/// once. Shapes: rounds and met [records]: the round of a record, and what it meets as a number into `sizes`.
std::uint64_t largest_step(std::span<const std::uint32_t> rounds, std::span<const std::uint32_t> met,
                           std::span<const std::uint64_t> sizes, std::uint32_t rounds_per_step,
                           std::uint32_t num_rounds);

}  // namespace spmm::mpi
