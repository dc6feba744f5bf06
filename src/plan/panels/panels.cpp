#include "plan/panels/panels.hpp"

#include <algorithm>

namespace spmm::plan {
namespace {

/// Whether sorting the pairs is cheaper than visiting every C block.
struct PrefersEsc {
  Listing listing;
  double pairs_per_block;

  bool operator()(std::uint64_t num_pairs, std::uint64_t all_c_blocks) const {
    if (listing == Listing::wherever_it_fits) return true;
    return static_cast<double>(num_pairs) < pairs_per_block * static_cast<double>(all_c_blocks);
  }
};

/// No row of these runs has more pairs.
std::uint64_t max_pairs_of_row(const RowPairs& pairs, std::size_t begin_run, std::size_t end_run) {
  std::uint64_t most = 0;
  for (std::size_t run = begin_run; run < end_run; ++run) {
    most = std::max(most, pairs.offsets[run + 1] - pairs.offsets[run]);
  }
  return std::min(most, pairs.max_row_pairs);
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

/// Panels as large as their rows' bounds allow; of at most max_c_blocks rows, or one run.
std::vector<Panel> cut_bounded(const RowPairs& pairs, std::uint32_t num_columns, std::uint64_t max_c_blocks) {
  std::vector<Panel> panels;
  for (std::size_t run = 0; run < pairs.num_runs();) {
    const std::size_t begin = run;
    std::uint64_t bound = run_bound(pairs, run++, num_columns);
    if (bound == 0) continue;
    for (; run < pairs.num_runs(); ++run) {
      const std::uint64_t more = run_bound(pairs, run, num_columns);
      if (bound + more > max_c_blocks || pairs.first_row(run + 1) - pairs.first_row(begin) > max_c_blocks) break;
      bound += more;
    }
    const Panel panel{.row_begin = pairs.first_row(begin),
                      .num_rows = pairs.first_row(run) - pairs.first_row(begin),
                      .column_begin = 0,
                      .num_columns = num_columns,
                      .first_pair = pairs.offsets[begin],
                      .num_pairs = pairs.offsets[run] - pairs.offsets[begin],
                      .max_row_pairs = max_pairs_of_row(pairs, begin, run),
                      .row_bound = bound};
    if (bound <= max_c_blocks) {
      panels.push_back(panel);
    } else {
      cut_columns(panel, max_c_blocks, panels);
    }
  }
  return panels;
}

}  // namespace

std::uint64_t max_run_bound(const RowPairs& pairs, std::uint32_t num_columns) {
  std::uint64_t most = 0;
  for (std::size_t run = 0; run < pairs.num_runs(); ++run) {
    most = std::max(most, run_bound(pairs, run, num_columns));
  }
  return most;
}

std::vector<Panel> cut_panels(const RowPairs& pairs, std::uint32_t num_columns, std::uint64_t max_c_blocks,
                              Listing listing, double esc_pairs_per_block) {
  if (listing == Listing::bounded) return cut_bounded(pairs, num_columns, max_c_blocks);
  const PrefersEsc prefers_esc{.listing = listing, .pairs_per_block = esc_pairs_per_block};
  std::vector<Panel> panels;
  const auto rows = [&](std::size_t begin, std::size_t end) {
    return std::uint64_t{pairs.first_row(end)} - pairs.first_row(begin);
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
      return (listing != Listing::never && pairs.offsets[end] - first_pair <= max_c_blocks) ||
             rows(begin, end) * num_columns <= max_c_blocks;
    };
    ++run;
    while (run < pairs.num_runs() && fits(begin + 1) && fits(run + 1)) ++run;
    // Lines that could be listed together, but are better visited, C block by C block: as many as fit.
    while (run > begin + 1 && rows(begin, run) * num_columns > max_c_blocks &&
           !prefers_esc(pairs.offsets[run] - first_pair, rows(begin, run) * num_columns)) {
      run = begin + std::max<std::size_t>(1, max_c_blocks / num_columns / pairs.rows_per_run);
    }
    Panel panel{.row_begin = pairs.first_row(begin),
                .num_rows = static_cast<std::uint32_t>(rows(begin, run)),
                .column_begin = 0,
                .num_columns = num_columns,
                .first_pair = first_pair,
                .num_pairs = pairs.offsets[run] - first_pair,
                .max_row_pairs = max_pairs_of_row(pairs, begin, run)};
    const std::uint64_t all_c_blocks = std::uint64_t{panel.num_rows} * num_columns;
    const bool can_expand = listing != Listing::never && panel.num_pairs <= max_c_blocks;
    const bool can_visit_all = all_c_blocks <= max_c_blocks;
    panel.expand = can_expand && (!can_visit_all || prefers_esc(panel.num_pairs, all_c_blocks));
    if (can_expand || can_visit_all) {
      panels.push_back(panel);
    } else {
      cut_columns(panel, max_c_blocks, panels);
    }
  }
  return panels;
}

}  // namespace spmm::plan
