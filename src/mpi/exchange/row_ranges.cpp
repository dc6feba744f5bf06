// Ranges of rows of about equal work.
#include "mpi/exchange/row_ranges.hpp"

#include <algorithm>

namespace spmm::mpi {
namespace {

__extension__ using Wide = unsigned __int128;  // a weight times a number of ranges

}  // namespace

std::vector<std::uint32_t> split_by_samples(std::vector<std::uint32_t> samples, std::uint32_t num_parts) {
  std::vector<std::uint32_t> first_rows(num_parts - 1, 0);
  if (samples.empty()) return first_rows;
  std::sort(samples.begin(), samples.end());
  for (std::uint64_t part = 1; part < num_parts; ++part) {
    first_rows[part - 1] = samples[samples.size() * part / num_parts];
  }
  return first_rows;
}

std::uint32_t part_of(std::span<const std::uint32_t> first_rows, std::uint32_t row) {
  return static_cast<std::uint32_t>(std::upper_bound(first_rows.begin(), first_rows.end(), row) - first_rows.begin());
}

std::vector<std::uint32_t> borders_in(std::span<const RowWork> rows, std::uint64_t weight_before, std::uint64_t total,
                                      std::uint32_t num_ranges) {
  std::vector<std::uint32_t> borders(num_ranges - 1, 0);
  Wide before = weight_before;
  Wide range = before * num_ranges / std::max<std::uint64_t>(1, total) + 1;  // the next border's number
  const auto target = [&] { return Wide{total} * range / num_ranges; };
  while (range > 1 && Wide{total} * (range - 1) / num_ranges > before) --range;
  for (const RowWork& row : rows) {
    const Wide behind = before + row.weight();
    for (; range < num_ranges && target() <= behind; ++range) {
      const Wide at = target();
      if (at <= before && before != 0) continue;  // fell into an earlier row
      const bool is_nearer_before = at - std::min(at, before) < behind - at;
      borders[static_cast<std::size_t>(range) - 1] = is_nearer_before ? row.row : row.row + 1;
    }
    before = behind;
  }
  return borders;
}

std::vector<RowWork> merged(std::vector<RowWork> rows) {
  std::sort(rows.begin(), rows.end(), [](const RowWork& x, const RowWork& y) { return x.row < y.row; });
  std::size_t size = 0;
  for (const RowWork& row : rows) {
    if (size != 0 && rows[size - 1].row == row.row) {
      rows[size - 1].pairs += row.pairs;
      rows[size - 1].blocks += row.blocks;
    } else {
      rows[size++] = row;
    }
  }
  rows.resize(size);
  return rows;
}

std::uint64_t largest_step(std::span<const std::uint32_t> rounds, std::span<const std::uint32_t> met,
                           std::span<const std::uint64_t> sizes, std::uint32_t rounds_per_step,
                           std::uint32_t num_rounds) {
  std::vector<std::uint64_t> step_begins((num_rounds + rounds_per_step - 1) / rounds_per_step + 1, 0);
  for (const std::uint32_t round : rounds) ++step_begins[round / rounds_per_step + 1];
  for (std::size_t step = 1; step < step_begins.size(); ++step) step_begins[step] += step_begins[step - 1];
  std::vector<std::uint32_t> ordered(met.size());
  std::vector<std::uint64_t> next = step_begins;
  for (std::size_t r = 0; r < met.size(); ++r) ordered[next[rounds[r] / rounds_per_step]++] = met[r];
  std::vector<std::uint32_t> met_in(sizes.size(), 0);  // the last step that meets it, counted from 1
  std::uint64_t largest = 0;
  for (std::uint32_t step = 1; step < step_begins.size(); ++step) {
    std::uint64_t size = 0;
    for (std::uint64_t x = step_begins[step - 1]; x < step_begins[step]; ++x) {
      if (met_in[ordered[x]] != step) size += sizes[ordered[x]];
      met_in[ordered[x]] = step;
    }
    largest = std::max(largest, size);
  }
  return largest;
}

}  // namespace spmm::mpi
