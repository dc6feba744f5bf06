// Cuts the block rows of a result into parts of about equal size. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "spmm/stream.hpp"

namespace spmm::plan {

/// A result has so many parts at most: each is an open file.
inline constexpr std::uint32_t kMaxParts = 256;

/// Block columns of B of which each holds a block in the same share of B's block rows.
struct ColumnGroup {
  double num_columns = 0;
  double share = 0;  ///< of the block rows of B that hold blocks; at most 1
};

/// What the C blocks of a block row are expected from.
struct ColumnSpread {
  std::vector<ColumnGroup> groups{};
  double row_blocks = 1;  ///< blocks of a block row of B, on average
};

/// Blocks anywhere in num_columns columns. Values: num_blocks in b_rows block rows.
ColumnSpread even_spread(std::uint64_t num_blocks, std::uint64_t b_rows, std::uint32_t num_columns);

/// Each frequent column has its own share, the others divide the rest.
/// Values: sample = block columns of randomly or evenly chosen blocks of B; sorted here.
ColumnSpread sampled_spread(std::vector<std::uint32_t> sample, std::uint64_t num_blocks, std::uint64_t b_rows,
                            std::uint32_t num_columns);

/// Evenly chosen columns of such a list, at most 65,536. Shapes: columns = block column of each block of B by rows.
std::vector<std::uint32_t> sample_of(std::span<const std::uint32_t> columns);

/// C blocks of a row, counted.
struct CountedRow {
  double pairs = 0;
  double num_blocks = 0;
};

/// C blocks of a block row as a function of its pairs, if its pairs come from block rows of B chosen anywhere.
class ExpectedBlocks {
 public:
  explicit ExpectedBlocks(const ColumnSpread& spread);

  [[nodiscard]] double operator()(double pairs) const;

  /// Corrects what is expected by rows that were counted, chosen with a probability in proportion to what was expected
  /// of them: rows of about as many pairs have on average the same share of it.
  void correct(std::span<const CountedRow> rows);

 private:
  [[nodiscard]] double model(double pairs) const;

  std::vector<double> factors_;  ///< by the power of two below the pairs; empty: 1
  std::vector<double> at_;       ///< at 2^(x / kStepsPerDouble) - 1 pairs
};

/// A list of num_rows rows -> the first row of each of num_parts parts, and the end. Parts are filled in order, each up
/// to the border that is nearest to its share of what is left. Shapes: returns [num_parts + 1], ascending; parts may be
/// empty. Values: weight(row) >= 0; asked twice for each row.
std::vector<std::uint32_t> cut_parts(std::uint32_t num_rows, const std::function<double(std::uint32_t)>& weight,
                                     std::uint32_t num_parts);

/// The ranges of block rows that belong to such borders. Values: block_rows = block row of each row of the list; the
/// first part begins at block row 0, and the last one ends at blocks_per_side.
std::vector<BlockRows> ranges_of(std::span<const std::uint32_t> borders, std::span<const std::uint32_t> block_rows,
                                 std::uint32_t blocks_per_side);

/// "--parts auto": as many files as can be written at once with profit, and enough for the blocks of a file.
std::uint32_t automatic_parts(double expected_blocks, std::uint64_t record_bytes, unsigned num_cores);

}  // namespace spmm::plan
