#include "plan/panels/panels.hpp"

#include <algorithm>

namespace spmm::plan {
namespace {

std::uint64_t pairs_of(const RowPairs& pairs, std::size_t begin, std::size_t end) {
  return pairs.offsets[end] - pairs.offsets[begin];
}

std::uint64_t rows_of(const RowPairs& pairs, std::size_t begin, std::size_t end) {
  return std::uint64_t{pairs.first_row(end)} - pairs.first_row(begin);
}

/// A panel of whole runs with all columns.
Panel panel_of(const RowPairs& pairs, std::size_t begin, std::size_t end, std::uint32_t num_columns) {
  std::uint64_t most = 0;
  for (std::size_t run = begin; run < end; ++run) most = std::max(most, pairs_of(pairs, run, run + 1));
  return {.row_begin = pairs.first_row(begin),
          .num_rows = static_cast<std::uint32_t>(rows_of(pairs, begin, end)),
          .num_columns = num_columns,
          .first_pair = pairs.offsets[begin],
          .num_pairs = pairs_of(pairs, begin, end),
          .max_row_pairs = std::min(most, pairs.max_row_pairs)};
}

/// One row of A with more C blocks than a panel holds: column chunks.
void cut_columns(Panel row, std::uint64_t max_c_blocks, std::vector<Panel>& panels) {
  const std::uint32_t num_columns = row.num_columns;
  row.expand = false;
  row.row_bound = 0;
  for (std::uint64_t begin = 0; begin < num_columns; begin += max_c_blocks) {
    row.column_begin = static_cast<std::uint32_t>(begin);
    row.num_columns = static_cast<std::uint32_t>(std::min(max_c_blocks, num_columns - begin));
    panels.push_back(row);
    row.num_pairs = 0;  // counted once, with the first chunk
  }
}

}  // namespace

std::vector<Panel> cut_panels(const RowPairs& pairs, std::uint32_t num_columns, std::uint64_t max_c_blocks,
                              Listing listing, double listed_pairs_per_block) {
  const bool may_list = listing == Listing::by_density || listing == Listing::wherever_it_fits;
  const auto places = [&](std::size_t begin, std::size_t end) { return rows_of(pairs, begin, end) * num_columns; };
  // Whether sorting the pairs is cheaper than visiting every C block.
  const auto prefers_list = [&](std::uint64_t num_pairs, std::uint64_t all_c_blocks) {
    return listing == Listing::wherever_it_fits ||
           static_cast<double>(num_pairs) < listed_pairs_per_block * static_cast<double>(all_c_blocks);
  };
  const auto fits = [&](std::size_t begin, std::size_t end) {
    return (may_list && pairs_of(pairs, begin, end) <= max_c_blocks) || places(begin, end) <= max_c_blocks;
  };
  std::vector<Panel> panels;
  for (std::size_t begin = 0, end = 0; begin < pairs.num_runs(); begin = end) {
    end = begin + 1;
    if (pairs_of(pairs, begin, end) == 0) continue;
    std::uint64_t bound = run_bound(pairs, begin, num_columns);
    if (listing == Listing::bounded) {
      for (; end < pairs.num_runs(); ++end) {
        const std::uint64_t more = run_bound(pairs, end, num_columns);
        if (bound + more > max_c_blocks || rows_of(pairs, begin, end + 1) > max_c_blocks) break;
        bound += more;
      }
    } else {
      while (end < pairs.num_runs() && fits(begin, begin + 1) && fits(begin, end + 1)) ++end;
      // Rows that could be listed together, but are better visited, C block by C block: as many as fit.
      while (end > begin + 1 && places(begin, end) > max_c_blocks &&
             !prefers_list(pairs_of(pairs, begin, end), places(begin, end))) {
        end = begin + std::max<std::size_t>(1, max_c_blocks / num_columns / pairs.rows_per_run);
      }
    }
    Panel panel = panel_of(pairs, begin, end, num_columns);
    const bool can_list = may_list && panel.num_pairs <= max_c_blocks;
    const bool can_visit_all = places(begin, end) <= max_c_blocks;
    panel.expand = can_list && (!can_visit_all || prefers_list(panel.num_pairs, places(begin, end)));
    if (listing == Listing::bounded) panel.row_bound = bound;
    const bool is_small = listing == Listing::bounded ? bound <= max_c_blocks : can_list || can_visit_all;
    if (is_small) {
      panels.push_back(panel);
    } else {
      cut_columns(panel, max_c_blocks, panels);
    }
  }
  return panels;
}

}  // namespace spmm::plan
