// Cuts the result into panels that fit the memory. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/tuning.hpp"

namespace spmm::plan {

/// A piece of the result computed in one pass: some rows of A against some columns of B.
/// Panels follow each other in result order: several rows of A only with all columns of B.
struct Panel {
  std::uint32_t row_begin = 0;  ///< row index in A
  std::uint32_t num_rows = 0;
  std::uint32_t column_begin = 0;  ///< column index in B, or block column
  std::uint32_t num_columns = 0;
  std::uint64_t first_pair = 0;
  std::uint64_t num_pairs = 0;      ///< of these rows of A with all of B
  std::uint64_t max_row_pairs = 0;  ///< no row of A in the panel has more
  bool expand = false;              ///< list only the C blocks that have pairs; else visit every C block
  std::uint64_t row_bound = 0;      ///< sum over its rows of min(pairs, columns); 0 = not made use of
  bool prefilter = false;           ///< dense kernels: high bytes first, which may prove C blocks saturated
  std::uint32_t device = 0;         ///< that computes it, where several share the product
  std::uint64_t number = 0;         ///< among all of the product, once devices have their own

  /// C blocks at most.
  [[nodiscard]] std::uint64_t max_c_blocks() const {
    if (row_bound != 0) return row_bound;
    const std::uint64_t all = std::uint64_t{num_rows} * num_columns;
    return expand && num_pairs < all ? num_pairs : all;
  }

  friend bool operator==(const Panel&, const Panel&) = default;
};

/// C blocks of the largest panel.
inline std::uint64_t most_c_blocks(const std::vector<Panel>& panels) {
  std::uint64_t most = 0;
  for (const Panel& panel : panels) most = std::max(most, panel.max_c_blocks());
  return most;
}

/// Pairs before each run of rows of A. A run is one row, or several if there are very many short ones.
struct RowPairs {
  std::vector<std::uint64_t> offsets{0};  ///< [runs + 1]
  std::uint32_t rows_per_run = 1;         ///< the last run may be shorter
  std::uint32_t num_rows = 0;
  std::uint64_t max_row_pairs = std::numeric_limits<std::uint64_t>::max();   ///< no row has more
  std::uint64_t max_row_blocks = std::numeric_limits<std::uint64_t>::max();  ///< no row of A has more blocks

  [[nodiscard]] std::size_t num_runs() const { return offsets.size() - 1; }
  /// First row of a run; num_rows behind the last one.
  [[nodiscard]] std::uint32_t first_row(std::size_t run) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{run} * rows_per_run, num_rows));
  }
};

/// When a panel is listed by expansion.
enum class Listing : std::uint8_t {
  by_density,  ///< where that is cheaper than visiting every C block
  never,
  wherever_it_fits,
  bounded,  ///< never, but rows have no more C blocks than pairs, and the kernel visits no others
};

/// Runs of rows without pairs are left out. No panel has more than max_c_blocks C blocks (max_c_blocks >= 1), none that
/// is listed more than max_c_blocks pairs, none that is `bounded` many more rows.
/// Values: listed_pairs_per_block = below so many pairs per C block, listing is cheaper than visiting every C block.
///         A run of several rows must have at most max_c_blocks pairs (bounded: or C blocks), and listing must not be
///         `never`. pair_step: panels end near multiples of so many pairs; 0 = only where they must.
/// Memory: the result has at most about 2 * (pairs / max_c_blocks) + rows / (max_c_blocks / num_columns) panels.
std::vector<Panel> cut_panels(const RowPairs& pairs, std::uint32_t num_columns, std::uint64_t max_c_blocks,
                              Listing listing = Listing::by_density,
                              double listed_pairs_per_block = kernels::kEscPairsPerBlock, std::uint64_t pair_step = 0);

/// Gives each panel to the device that has the least work so far. Values: by_rows = a row costs the same whatever pairs
/// it has.
void share_out(std::vector<Panel>& panels, std::uint32_t num_devices, bool by_rows);

/// C blocks of a run of rows, at most. Defined here: a decision asks for those of many thousand runs.
inline std::uint64_t run_bound(const RowPairs& pairs, std::size_t run, std::uint32_t num_columns) {
  const std::uint64_t rows = std::uint64_t{pairs.first_row(run + 1)} - pairs.first_row(run);
  return std::min(pairs.offsets[run + 1] - pairs.offsets[run], rows * num_columns);
}

/// Rows of A whose pairs are listed together, and their C blocks.
struct ListedRows {
  std::uint32_t row_begin = 0;
  std::uint32_t num_rows = 0;
  std::uint64_t num_pairs = 0;
  std::uint32_t first_block = 0;
  std::uint32_t num_blocks = 0;

  /// Memory while they are listed. Values: block_bytes = of each C block, beside the list.
  [[nodiscard]] std::uint64_t bytes(std::uint64_t block_bytes) const {
    constexpr std::uint64_t kPairBytes = 8;
    constexpr std::uint64_t kRowBytes = 16;  // counts, sums, and room to add them up
    return num_pairs * kPairBytes + num_rows * kRowBytes + num_blocks * block_bytes;
  }
};

/// All rows, in parts that take most_bytes at most, but for a single row that takes more.
/// Shapes: first_blocks [rows + 1]: C blocks before each row. Values: pairs of each row.
std::vector<ListedRows> cut_rows(const RowPairs& pairs, const std::vector<std::uint32_t>& first_blocks,
                                 std::uint64_t most_bytes, std::uint64_t block_bytes);

}  // namespace spmm::plan
