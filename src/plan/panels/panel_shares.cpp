#include "plan/panels/panel_shares.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace spmm::plan {
namespace {

/// A panel on its way to a device.
struct CutPanel {
  SharedPanel shared{};
  double work = 0;
};

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

/// Sets the work of each piece. The pairs of a row in column chunks are named with the first of them.
void count_work(std::vector<CutPanel>& pieces, bool by_rows) {
  for (std::size_t x = 0; x < pieces.size();) {
    const Panel& first = pieces[x].shared.panel;
    std::size_t end = x + 1;
    std::uint64_t columns = first.num_columns;
    while (end < pieces.size() && pieces[end].shared.panel.row_begin == first.row_begin) {
      columns += pieces[end++].shared.panel.num_columns;
    }
    const double work = by_rows ? first.num_rows : std::max(1.0, static_cast<double>(first.num_pairs));
    for (; x < end; ++x) {
      const double share = pieces[x].shared.panel.num_columns / std::max(1.0, static_cast<double>(columns));
      pieces[x].work = work * share;
    }
  }
}

/// The row at which the next of `left` equal pieces of rows [begin, end) ends.
std::uint32_t next_border(const RowPairs& pairs, std::uint32_t begin, std::uint32_t end, std::uint32_t left,
                          const ShareRules& rules) {
  if (left <= 1) return end;
  if (rules.by_rows) {
    const std::uint32_t step = std::max(1u, rules.row_step);
    const std::uint32_t steps = (end - begin + step - 1) / step;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(end, begin + std::uint64_t{(steps + left - 1) / left} * step));
  }
  const std::size_t first_run = run_of_row(pairs, begin);
  const std::size_t end_run = run_of_row(pairs, end);
  const std::uint64_t wanted = pairs.offsets[first_run] + (pairs.offsets[end_run] - pairs.offsets[first_run]) / left;
  const auto at = std::lower_bound(pairs.offsets.begin() + static_cast<std::ptrdiff_t>(first_run) + 1,
                                   pairs.offsets.begin() + static_cast<std::ptrdiff_t>(end_run), wanted);
  return pairs.first_row(static_cast<std::size_t>(at - pairs.offsets.begin()));
}

/// A piece in about `count` pieces of as much work each.
void divide(const CutPanel& piece, const RowPairs& pairs, std::uint32_t count, const ShareRules& rules,
            std::vector<CutPanel>& out) {
  const Panel& whole = piece.shared.panel;
  const std::uint32_t end = whole.row_begin + whole.num_rows;
  for (std::uint32_t begin = whole.row_begin, left = count; begin<end; left -= left> 1 ? 1 : 0) {
    const std::uint32_t stop = next_border(pairs, begin, end, left, rules);
    CutPanel part = piece;
    part.shared.panel = rows_of(whole, pairs, begin, stop);
    if (count > 1) part.work = rules.by_rows ? stop - begin : static_cast<double>(part.shared.panel.num_pairs);
    begin = stop;
    if (part.shared.panel.num_pairs != 0 || count == 1) out.push_back(part);
  }
}

/// The less is still to come, the smaller the pieces: none delays the end much.
std::vector<CutPanel> divided(const std::vector<CutPanel>& pieces, const RowPairs& pairs, const ShareRules& rules) {
  const auto add = [](double sum, const CutPanel& piece) { return sum + piece.work; };
  double to_come = std::accumulate(pieces.begin(), pieces.end(), 0.0, add);
  std::vector<CutPanel> out;
  for (const CutPanel& piece : pieces) {
    const Panel& panel = piece.shared.panel;
    const double largest = to_come / (2.0 * rules.num_devices);
    const std::uint64_t most =
        std::max<std::uint64_t>(1, panel.max_c_blocks() / std::max<std::uint64_t>(1, rules.min_c_blocks));
    auto count = static_cast<std::uint64_t>(std::max(1.0, std::ceil(piece.work / largest - 1e-9)));
    count = std::max(count, (panel.max_c_blocks() - 1) / rules.max_c_blocks + 1);
    count = (count - 1) / rules.num_devices * rules.num_devices + rules.num_devices;
    count = std::min(count, most);
    // A row is not divided; in column chunks it is one.
    divide(piece, pairs, panel.num_rows > 1 && rules.divides ? static_cast<std::uint32_t>(count) : 1, rules, out);
    to_come -= piece.work;
  }
  return out;
}

}  // namespace

std::uint32_t dense_row_step(std::uint32_t m) {
  constexpr std::uint32_t kTileRows = 128;  // of every dense kernel: elements
  return std::max(1u, kTileRows / m);
}

std::vector<SharedPanel> share_panels(const std::vector<Panel>& panels, const RowPairs& pairs,
                                      const ShareRules& rules) {
  std::vector<CutPanel> pieces;
  pieces.reserve(panels.size());
  for (const Panel& panel : panels) pieces.push_back({.shared = {.panel = panel}});
  count_work(pieces, rules.by_rows);
  pieces = divided(pieces, pairs, rules);
  std::vector<double> load(rules.num_devices, 0);
  std::vector<SharedPanel> shared;
  for (CutPanel& piece : pieces) {
    const auto least = std::min_element(load.begin(), load.end());
    piece.shared.device = static_cast<std::uint32_t>(least - load.begin());
    *least += piece.work;
    shared.push_back(piece.shared);
  }
  return shared;
}

}  // namespace spmm::plan
