#include "plan/panels/part_cut.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace spmm::plan {
namespace {

constexpr double kStepsPerDouble = 4;
constexpr int kNumSteps = 64 * static_cast<int>(kStepsPerDouble);

/// A column that a sample holds less often counts as one of the many: its count says too little.
constexpr std::uint64_t kMinCount = 4;

/// C blocks that q block rows of B leave in the columns of a group.
double hit_columns(const ColumnGroup& group, double q) {
  if (group.share >= 1) return q > 0 ? group.num_columns * std::min(1.0, q) : 0;
  return group.num_columns * -std::expm1(q * std::log1p(-group.share));
}

}  // namespace

ColumnSpread even_spread(std::uint64_t num_blocks, std::uint64_t b_rows, std::uint32_t num_columns) {
  if (num_blocks == 0 || b_rows == 0 || num_columns == 0) return {};
  const double row_blocks = static_cast<double>(num_blocks) / static_cast<double>(b_rows);
  return {.groups = {{.num_columns = double(num_columns), .share = std::min(1.0, row_blocks / num_columns)}},
          .row_blocks = row_blocks};
}

ColumnSpread sampled_spread(std::vector<std::uint32_t> sample, std::uint64_t num_blocks, std::uint64_t b_rows,
                            std::uint32_t num_columns) {
  ColumnSpread spread = even_spread(num_blocks, b_rows, num_columns);
  if (spread.groups.empty() || sample.empty()) return spread;
  std::sort(sample.begin(), sample.end());
  std::map<std::uint64_t, std::uint64_t> columns_of;  // times that a column occurs in the sample -> columns
  for (std::size_t x = 0; x < sample.size();) {
    const auto end = std::upper_bound(sample.begin() + static_cast<std::ptrdiff_t>(x), sample.end(), sample[x]);
    const auto count = static_cast<std::uint64_t>(end - sample.begin()) - x;
    if (count >= kMinCount) ++columns_of[count];
    x += count;
  }
  ColumnGroup rest = spread.groups.front();
  double rest_blocks = 1;  // share of all blocks
  spread.groups.clear();
  for (const auto& [count, columns] : columns_of) {
    const double of_all = static_cast<double>(count) / static_cast<double>(sample.size());
    const auto num = static_cast<double>(columns);
    spread.groups.push_back({.num_columns = num, .share = std::min(1.0, of_all * spread.row_blocks)});
    rest_blocks -= of_all * num;
    rest.num_columns -= num;
  }
  if (rest.num_columns >= 1 && rest_blocks > 0) {
    rest.share = std::min(1.0, rest_blocks * spread.row_blocks / rest.num_columns);
    spread.groups.push_back(rest);
  }
  return spread;
}

std::vector<std::uint32_t> sample_of(std::span<const std::uint32_t> columns) {
  constexpr std::uint64_t kMaxSample = 1u << 16;
  const std::uint64_t size = std::min<std::uint64_t>(columns.size(), kMaxSample);
  std::vector<std::uint32_t> sample(size);
  for (std::uint64_t x = 0; x < size; ++x) sample[x] = columns[x * columns.size() / size];
  return sample;
}

ExpectedBlocks::ExpectedBlocks(const ColumnSpread& spread) : at_(kNumSteps + 1) {
  for (int x = 0; x <= kNumSteps; ++x) {
    const double pairs = std::exp2(x / kStepsPerDouble) - 1;
    double blocks = 0;
    for (const ColumnGroup& group : spread.groups) blocks += hit_columns(group, pairs / spread.row_blocks);
    at_[static_cast<std::size_t>(x)] = std::min(blocks, pairs);
  }
}

void ExpectedBlocks::correct(std::span<const CountedRow> rows) {
  constexpr std::size_t kNumPowers = 64;
  std::vector<double> sums(kNumPowers);
  std::vector<double> counts(kNumPowers);
  for (const CountedRow& row : rows) {
    const double expected = model(row.pairs);
    if (expected <= 0) continue;
    const auto power = static_cast<std::size_t>(std::min(std::log2(row.pairs), kNumPowers - 1.0));
    sums[power] += row.num_blocks / expected;
    ++counts[power];
  }
  std::vector<double> factors(kNumPowers, 1);
  double last = 0;
  for (std::size_t x = 0; x < kNumPowers; ++x) {
    if (counts[x] > 0) {
      factors[x] = sums[x] / counts[x];
      if (last == 0) std::fill_n(factors.begin(), x, factors[x]);
      last = factors[x];
    } else if (last != 0) {
      factors[x] = last;
    }
  }
  factors_ = std::move(factors);
}

double ExpectedBlocks::operator()(double pairs) const {
  const double blocks = model(pairs);
  if (factors_.empty() || pairs < 1) return blocks;
  // Between the middles of two powers.
  const double place = std::clamp(std::log2(pairs) - 0.5, 0.0, static_cast<double>(factors_.size()) - 1.001);
  const auto x = static_cast<std::size_t>(place);
  return blocks * (factors_[x] + (factors_[x + 1] - factors_[x]) * (place - static_cast<double>(x)));
}

double ExpectedBlocks::model(double pairs) const {
  if (pairs <= 0) return 0;
  const double place = std::min(std::log2(pairs + 1) * kStepsPerDouble, double(kNumSteps));
  const auto x = static_cast<std::size_t>(std::min(place, kNumSteps - 1.0));
  // Linear in the pairs between two steps.
  const double low = std::exp2(static_cast<double>(x) / kStepsPerDouble) - 1;
  const double high = std::exp2(static_cast<double>(x + 1) / kStepsPerDouble) - 1;
  const double part = std::clamp((pairs - low) / (high - low), 0.0, 1.0);
  return at_[x] + (at_[x + 1] - at_[x]) * part;
}

std::vector<std::uint32_t> cut_parts(std::uint32_t num_rows, const std::function<double(std::uint32_t)>& weight,
                                     std::uint32_t num_parts) {
  std::vector<std::uint32_t> borders{0};
  double left = 0;
  for (std::uint32_t row = 0; row < num_rows; ++row) left += weight(row);
  std::uint32_t at = 0;
  for (std::uint32_t remaining = num_parts; remaining > 1; --remaining) {
    const double share = left / remaining;
    double filled = 0;
    for (; at < num_rows; ++at) {
      const double of_row = weight(at);
      if (of_row > 0 && filled > 0 && (filled >= share || filled + of_row / 2 > share)) break;
      filled += of_row;
    }
    left -= filled;
    borders.push_back(at);
  }
  borders.push_back(num_rows);
  return borders;
}

std::vector<BlockRows> ranges_of(std::span<const std::uint32_t> borders, std::span<const std::uint32_t> block_rows,
                                 std::uint32_t blocks_per_side) {
  std::vector<BlockRows> ranges;
  std::uint32_t begin = 0;
  for (std::size_t x = 1; x < borders.size(); ++x) {
    const bool is_last = x + 1 == borders.size() || borders[x] >= block_rows.size();
    const std::uint32_t end = is_last ? blocks_per_side : borders[x] == 0 ? 0 : block_rows[borders[x]];
    ranges.push_back({.begin = begin, .end = end});
    begin = end;
  }
  return ranges;
}

std::uint32_t automatic_parts(double expected_blocks, std::uint64_t record_bytes, unsigned num_cores) {
  constexpr double kPartBytes = 128e6;         // a smaller file is written before a second one helps
  constexpr std::uint32_t kMaxAtOnce = 16;     // measured with 16 cores: 16 files at once
  constexpr double kMostBlocksOfPart = 3.5e9;  // of 4.29e9: parts need not be equal
  const double by_bytes = expected_blocks * static_cast<double>(record_bytes) / kPartBytes;
  const double at_once = std::min<double>(by_bytes, std::clamp(num_cores, 1u, kMaxAtOnce));
  const double by_blocks = expected_blocks / kMostBlocksOfPart;
  return static_cast<std::uint32_t>(std::clamp(std::ceil(std::max(at_once, by_blocks)), 1.0, double(kMaxParts)));
}

}  // namespace spmm::plan
