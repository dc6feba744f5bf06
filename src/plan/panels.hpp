// Cuts the result into panels that fit the memory. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace spmm::plan {

/// A piece of the result computed in one pass: some lines of A against some lines of B.
/// Panels follow each other in result order: several lines of A only with all lines of B.
struct Panel {
  std::uint32_t row_begin = 0;  ///< line slot of A
  std::uint32_t num_rows = 0;
  std::uint32_t column_begin = 0;  ///< line slot of B
  std::uint32_t num_columns = 0;
  std::uint64_t first_pair = 0;
  std::uint64_t num_pairs = 0;       ///< of these lines of A with all lines of B
  std::uint64_t max_line_pairs = 0;  ///< no line of A in the panel has more
  bool expand = false;               ///< list only the tiles that have pairs; else visit every tile
  bool prefilter = false;            ///< dense kernels: high bytes first, which may prove tiles saturated

  /// Tiles at most.
  [[nodiscard]] std::uint64_t max_tiles() const {
    const std::uint64_t all = std::uint64_t{num_rows} * num_columns;
    return expand && num_pairs < all ? num_pairs : all;
  }

  friend bool operator==(const Panel&, const Panel&) = default;
};

/// Pairs before each run of lines of A. A run is one line, or several where there are very many light ones.
struct RowPairs {
  std::vector<std::uint64_t> offsets{0};  ///< [runs + 1]
  std::uint32_t lines_per_run = 1;        ///< the last run may be shorter
  std::uint32_t num_lines = 0;
  std::uint64_t max_line_pairs = std::numeric_limits<std::uint64_t>::max();  ///< no line has more

  [[nodiscard]] std::size_t num_runs() const { return offsets.size() - 1; }
  /// First line of a run; num_lines behind the last one.
  [[nodiscard]] std::uint32_t first_line(std::size_t run) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{run} * lines_per_run, num_lines));
  }
};

/// When a panel is listed by expansion.
enum class Listing : std::uint8_t {
  by_density,  ///< where that is cheaper than visiting every tile
  never,
  wherever_it_fits,
};

/// Runs of lines without pairs are left out. No panel has more than max_tiles tiles (max_tiles >= 1), none that expands
/// more than max_tiles pairs.
/// Values: a run of several lines must have at most max_tiles pairs, and listing must not be `never`.
/// Memory: the result has at most about 2 * (pairs / max_tiles) + lines / (max_tiles / num_columns) panels.
std::vector<Panel> cut_panels(const RowPairs& pairs, std::uint32_t num_columns, std::uint64_t max_tiles,
                              Listing listing = Listing::by_density);

}  // namespace spmm::plan
