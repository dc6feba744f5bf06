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
                              Listing listing, double listed_pairs_per_block, std::uint64_t pair_step) {
  const bool may_list = listing == Listing::by_density || listing == Listing::wherever_it_fits;
  const bool is_bounded = listing == Listing::bounded;
  const auto places = [&](std::size_t begin, std::size_t end) { return rows_of(pairs, begin, end) * num_columns; };
  // Whether sorting the pairs is cheaper than visiting every C block.
  const auto prefers_list = [&](std::uint64_t num_pairs, std::uint64_t all_c_blocks) {
    return listing == Listing::wherever_it_fits ||
           static_cast<double>(num_pairs) < listed_pairs_per_block * static_cast<double>(all_c_blocks);
  };
  std::vector<Panel> panels;
  for (std::size_t begin = 0, end = 0; begin < pairs.num_runs(); begin = end) {
    end = begin + 1;
    if (pairs_of(pairs, begin, end) == 0) continue;
    std::uint64_t bound = 0;
    const std::uint64_t border =
        pair_step == 0 ? 0 : ((pairs.offsets[begin] + pair_step / 4) / pair_step + 1) * pair_step;
    const auto fits = [&](std::size_t last) {  // with the runs up to this one
      const std::uint64_t num_pairs = pairs_of(pairs, begin, last);
      const std::uint64_t middle = (pairs.offsets[last - 1] + pairs.offsets[last]) / 2;  // of the last run
      if (pair_step != 0 && last - begin > 1 && middle > border) return false;
      if (!is_bounded) return (may_list && num_pairs <= max_c_blocks) || places(begin, last) <= max_c_blocks;
      const std::uint64_t more = run_bound(pairs, last - 1, num_columns);
      const bool has_too_many_rows = last - begin > 1 && rows_of(pairs, begin, last) > max_c_blocks;
      if (bound + more > max_c_blocks || has_too_many_rows) return false;
      bound += more;
      return true;
    };
    const bool is_small = fits(end);
    if (is_small) {
      while (end < pairs.num_runs() && fits(end + 1)) ++end;
    }
    // Rows that could be listed together, but are better visited, C block by C block: as many as fit.
    while (!is_bounded && end > begin + 1 && places(begin, end) > max_c_blocks &&
           !prefers_list(pairs_of(pairs, begin, end), places(begin, end))) {
      end = begin + std::max<std::size_t>(1, max_c_blocks / num_columns / pairs.rows_per_run);
    }
    Panel panel = panel_of(pairs, begin, end, num_columns);
    panel.row_bound = is_bounded ? bound : 0;
    panel.expand = may_list && panel.num_pairs <= max_c_blocks &&
                   (places(begin, end) > max_c_blocks || prefers_list(panel.num_pairs, places(begin, end)));
    if (is_small) {
      panels.push_back(panel);
    } else {
      cut_columns(panel, max_c_blocks, panels);
    }
  }
  return panels;
}

void share_out(std::vector<Panel>& panels, std::uint32_t num_devices, bool by_rows) {
  if (num_devices <= 1) return;
  std::vector<double> load(num_devices, 0);
  double row_pairs = 0;  // of a row in column chunks: they are named with the first of them
  for (Panel& panel : panels) {
    if (panel.column_begin == 0) row_pairs = std::max(1.0, static_cast<double>(panel.num_pairs));
    const auto least = std::min_element(load.begin(), load.end());
    panel.device = static_cast<std::uint32_t>(least - load.begin());
    *least += by_rows ? panel.num_rows : row_pairs;
  }
}

std::vector<ListedRows> cut_rows(const RowPairs& pairs, const std::vector<std::uint32_t>& first_blocks,
                                 std::uint64_t most_bytes, std::uint64_t block_bytes) {
  std::vector<ListedRows> parts;
  for (std::uint32_t row = 0; row < pairs.num_rows; ++row) {
    const ListedRows one{.row_begin = row,
                         .num_rows = 1,
                         .num_pairs = pairs_of(pairs, row, row + std::size_t{1}),
                         .first_block = first_blocks[row],
                         .num_blocks = first_blocks[row + std::size_t{1}] - first_blocks[row]};
    if (parts.empty() || parts.back().bytes(block_bytes) + one.bytes(block_bytes) > most_bytes) {
      parts.push_back(one);
      continue;
    }
    ListedRows& part = parts.back();
    part.num_rows += 1;
    part.num_pairs += one.num_pairs;
    part.num_blocks += one.num_blocks;
  }
  return parts;
}

}  // namespace spmm::plan
