#include "cpu/c_block_estimate.hpp"

#include <algorithm>
#include <vector>

#include "base/cancellable.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kSamples = 64;
constexpr std::uint64_t kMaxSampledPairs = 1u << 15;  // of a row: its first ones; sorting them takes about 1 ms

/// Share of the first pairs of a row that have a column of their own.
double blocks_per_pair(const Operand& a, const Operand& b, std::uint64_t row, std::vector<std::uint32_t>& columns) {
  columns.clear();
  for (std::uint32_t x = a.row_ptr[row]; x < a.row_ptr[row + 1] && columns.size() < kMaxSampledPairs; ++x) {
    if (a.cols[x] == kNoRow) continue;
    const std::uint32_t* const first = b.cols.data() + b.row_ptr[a.cols[x]];
    const std::uint64_t count = b.row_ptr[a.cols[x] + 1] - b.row_ptr[a.cols[x]];
    columns.insert(columns.end(), first, first + std::min(count, kMaxSampledPairs - columns.size()));
  }
  if (columns.empty()) return 0;
  std::sort(columns.begin(), columns.end());
  const auto distinct = std::unique(columns.begin(), columns.end()) - columns.begin();
  return static_cast<double>(distinct) / static_cast<double>(columns.size());
}

}  // namespace

double estimate_c_blocks(const Operand& a, const Operand& b, std::span<const std::uint64_t> row_pairs, const Run& run) {
  std::uint64_t total = 0;
  for_ranges(run, row_pairs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) total += row_pairs[r];
  });
  const std::uint64_t samples = std::min(kSamples, total);
  std::vector<std::uint32_t> columns;
  std::uint64_t before = 0;
  std::uint64_t taken = 0;
  double sum = 0;
  for_ranges(run, row_pairs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      before += row_pairs[r];
      std::uint64_t here = 0;  // samples that fall on this row
      while (taken < samples && taken * (total / samples) < before) ++taken, ++here;
      if (here != 0) sum += static_cast<double>(here) * blocks_per_pair(a, b, r, columns);
    }
  });
  return samples == 0 ? 0 : sum / static_cast<double>(samples) * static_cast<double>(total);
}

}  // namespace spmm::cpu
