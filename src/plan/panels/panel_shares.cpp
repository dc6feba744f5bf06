#include "plan/panels/panel_shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace spmm::plan {
namespace {

std::size_t run_of_row(const RowPairs& pairs, std::uint32_t row) {
  return (std::size_t{row} + pairs.rows_per_run - 1) / pairs.rows_per_run;
}

/// Rows [begin, end) of a panel.
Panel rows_of(const Panel& whole, const RowPairs& pairs, std::uint32_t begin, std::uint32_t end) {
  if (begin == whole.row_begin && end == whole.row_begin + whole.num_rows) return whole;
  Panel part = whole;
  const std::size_t first_run = run_of_row(pairs, begin);
  const std::size_t end_run = run_of_row(pairs, end);
  part.row_begin = begin;
  part.num_rows = end - begin;
  part.first_pair = pairs.offsets[first_run];
  part.num_pairs = pairs.offsets[end_run] - part.first_pair;
  if (whole.row_bound != 0) {
    part.row_bound = 0;
    for (std::size_t run = first_run; run < end_run; ++run) {
      part.row_bound += run_bound(pairs, run, whole.num_columns);
    }
  }
  return part;
}

/// The work of each panel. The pairs of a row in column chunks are named with the first of them.
std::vector<double> work_of(const std::vector<Panel>& panels, bool by_rows) {
  std::vector<double> work;
  for (auto first = panels.begin(); first != panels.end();) {
    const auto end =
        std::find_if(first, panels.end(), [&](const Panel& panel) { return panel.row_begin != first->row_begin; });
    const double columns =
        std::accumulate(first, end, 0.0, [](double sum, const Panel& panel) { return sum + panel.num_columns; });
    const double of_rows = by_rows ? first->num_rows : std::max(1.0, static_cast<double>(first->num_pairs));
    for (; first != end; ++first) work.push_back(of_rows * (first->num_columns / std::max(1.0, columns)));
  }
  return work;
}

/// The row at which the next of `left` equal pieces of rows [begin, end) ends.
std::uint32_t next_border(const RowPairs& pairs, std::uint32_t begin, std::uint32_t end, std::uint64_t left,
                          const ShareRules& rules) {
  if (left <= 1) return end;
  if (rules.by_rows) {
    const std::uint32_t step = std::max(1u, rules.row_step);
    const std::uint64_t steps = (end - begin + step - 1) / step;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(end, begin + (steps + left - 1) / left * step));
  }
  const std::size_t first_run = run_of_row(pairs, begin);
  const std::size_t end_run = run_of_row(pairs, end);
  const std::uint64_t wanted = pairs.offsets[first_run] + (pairs.offsets[end_run] - pairs.offsets[first_run]) / left;
  const auto at = std::lower_bound(pairs.offsets.begin() + static_cast<std::ptrdiff_t>(first_run) + 1,
                                   pairs.offsets.begin() + static_cast<std::ptrdiff_t>(end_run), wanted);
  return pairs.first_row(static_cast<std::size_t>(at - pairs.offsets.begin()));
}

/// Pieces of a panel: some for each device, and the smaller the less is still to come, so that none delays the end
/// much. A row is not divided; in column chunks it is one.
std::uint64_t num_pieces(const Panel& panel, double work, double to_come, const ShareRules& rules) {
  if (panel.num_rows <= 1 || !rules.divides) return 1;
  const std::uint64_t c_blocks = panel.max_c_blocks();
  const double largest = to_come / (2.0 * rules.num_devices);
  auto count = static_cast<std::uint64_t>(std::max(1.0, std::ceil(work / largest - 1e-9)));
  count = std::max(count, (c_blocks - 1) / rules.max_c_blocks + 1);
  count = (count - 1) / rules.num_devices * rules.num_devices + rules.num_devices;
  return std::min(count, std::max<std::uint64_t>(1, c_blocks / std::max<std::uint64_t>(1, rules.min_c_blocks)));
}

}  // namespace

std::uint32_t dense_row_step(std::uint32_t m) {
  constexpr std::uint32_t kTileRows = 128;  // of every dense kernel: elements
  return std::max(1u, kTileRows / m);
}

std::vector<SharedPanel> share_panels(const std::vector<Panel>& panels, const RowPairs& pairs,
                                      const ShareRules& rules) {
  const std::vector<double> work = work_of(panels, rules.by_rows);
  double to_come = std::accumulate(work.begin(), work.end(), 0.0);
  std::vector<double> load(rules.num_devices, 0);
  std::vector<SharedPanel> shared;
  for (std::size_t x = 0; x < panels.size(); ++x) {
    const Panel& whole = panels[x];
    const std::uint64_t count = num_pieces(whole, work[x], to_come, rules);
    const std::uint32_t end = whole.row_begin + whole.num_rows;
    std::uint64_t left = count;
    for (std::uint32_t begin = whole.row_begin; begin<end; left -= left> 1 ? 1 : 0) {
      const std::uint32_t stop = next_border(pairs, begin, end, left, rules);
      const Panel part = rows_of(whole, pairs, begin, stop);
      const double of_part = rules.by_rows ? stop - begin : static_cast<double>(part.num_pairs);
      begin = stop;
      if (part.num_pairs == 0 && count > 1) continue;
      const auto least = std::min_element(load.begin(), load.end());
      shared.push_back({.panel = part, .device = static_cast<std::uint32_t>(least - load.begin())});
      *least += count > 1 ? of_part : work[x];
    }
    to_come -= work[x];
  }
  return shared;
}

}  // namespace spmm::plan
