#include "plan/panels.hpp"

#include <algorithm>

#include "kernels/tuning.hpp"

namespace spmm::plan {
namespace {

/// Whether sorting the pairs is cheaper than visiting every tile.
bool prefers_expansion(std::uint64_t num_pairs, std::uint64_t all_tiles, Listing listing) {
  if (listing == Listing::wherever_it_fits) return true;
  return static_cast<double>(num_pairs) < kernels::kExpandPairsPerTile * static_cast<double>(all_tiles);
}

/// No line of these runs has more pairs.
std::uint64_t max_pairs_of_line(const RowPairs& pairs, std::size_t begin_run, std::size_t end_run) {
  std::uint64_t most = 0;
  for (std::size_t run = begin_run; run < end_run; ++run) {
    most = std::max(most, pairs.offsets[run + 1] - pairs.offsets[run]);
  }
  return std::min(most, pairs.max_line_pairs);
}

/// One line of A with more tiles than a panel holds: stretches of columns.
void cut_columns(Panel row, std::uint64_t max_tiles, std::vector<Panel>& panels) {
  const std::uint32_t num_columns = row.num_columns;
  row.expand = false;
  for (std::uint64_t begin = 0; begin < num_columns; begin += max_tiles) {
    row.column_begin = static_cast<std::uint32_t>(begin);
    row.num_columns = static_cast<std::uint32_t>(std::min(max_tiles, num_columns - begin));
    panels.push_back(row);
    row.num_pairs = 0;  // counted once, with the first stretch
  }
}

}  // namespace

std::vector<Panel> cut_panels(const RowPairs& pairs, std::uint32_t num_columns, std::uint64_t max_tiles,
                              Listing listing) {
  std::vector<Panel> panels;
  const auto lines = [&](std::size_t begin, std::size_t end) {
    return std::uint64_t{pairs.first_line(end)} - pairs.first_line(begin);
  };
  std::size_t run = 0;
  while (run < pairs.num_runs()) {
    const std::size_t begin = run;
    const std::uint64_t first_pair = pairs.offsets[begin];
    if (pairs.offsets[begin + 1] == first_pair) {
      ++run;
      continue;
    }
    const auto fits = [&](std::size_t end) {
      return (listing != Listing::never && pairs.offsets[end] - first_pair <= max_tiles) ||
             lines(begin, end) * num_columns <= max_tiles;
    };
    ++run;
    while (run < pairs.num_runs() && fits(begin + 1) && fits(run + 1)) ++run;
    // Lines that could be listed together, but are better visited, tile by tile: as many as fit.
    while (run > begin + 1 && lines(begin, run) * num_columns > max_tiles &&
           !prefers_expansion(pairs.offsets[run] - first_pair, lines(begin, run) * num_columns, listing)) {
      run = begin + std::max<std::size_t>(1, max_tiles / num_columns / pairs.lines_per_run);
    }
    Panel panel{.row_begin = pairs.first_line(begin),
                .num_rows = static_cast<std::uint32_t>(lines(begin, run)),
                .column_begin = 0,
                .num_columns = num_columns,
                .first_pair = first_pair,
                .num_pairs = pairs.offsets[run] - first_pair,
                .max_line_pairs = max_pairs_of_line(pairs, begin, run)};
    const std::uint64_t all_tiles = std::uint64_t{panel.num_rows} * num_columns;
    const bool can_expand = listing != Listing::never && panel.num_pairs <= max_tiles;
    const bool can_visit_all = all_tiles <= max_tiles;
    panel.expand = can_expand && (!can_visit_all || prefers_expansion(panel.num_pairs, all_tiles, listing));
    if (can_expand || can_visit_all) {
      panels.push_back(panel);
    } else {
      cut_columns(panel, max_tiles, panels);
    }
  }
  return panels;
}

}  // namespace spmm::plan
