#include "cpu/operands/c_block_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/run/cancellable.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kSamples = 64;
constexpr std::uint64_t kMinSamples = 8;
constexpr std::uint64_t kSampledPairs = 1u << 18;    // of all samples: some tenths of a millisecond
constexpr std::uint64_t kMaxMarkedPairs = 1u << 15;  // of a row: its first ones
constexpr std::uint64_t kMaxSortedPairs = 1u << 12;  // the same, where columns are too many for marks
constexpr std::uint64_t kMaxMarkedColumns = 1u << 20;

/// Finds the number of different columns of a row for each of its pairs.
class RowSampler {
 public:
  RowSampler(const PackedOperand& a, const PackedOperand& b, std::uint32_t blocks_per_side) : a_(a), b_(b) {
    if (blocks_per_side <= kMaxMarkedColumns) marks_.resize(blocks_per_side, 0);
    columns_.reserve(marks_.empty() ? kMaxSortedPairs : kMaxMarkedPairs);
  }

  /// From its first pairs. If there are more, new columns become rarer as they did from the first half to all.
  double blocks_per_pair(std::uint64_t row, std::uint64_t row_pairs) {
    list_columns(row);
    if (columns_.empty()) return 0;
    const auto num = static_cast<double>(columns_.size());
    const auto distinct = static_cast<double>(num_distinct());
    const double rest = static_cast<double>(row_pairs) / num;
    if (rest <= 1 || columns_.size() < 2) return distinct / num;
    columns_.resize(columns_.size() / 2);
    const double growth = std::log2(distinct / static_cast<double>(num_distinct()));
    return distinct / num * std::pow(rest, std::clamp(growth, 0.0, 1.0) - 1);
  }

 private:
  void list_columns(std::uint64_t row) {
    const std::uint64_t most = marks_.empty() ? kMaxSortedPairs : kMaxMarkedPairs;
    columns_.clear();
    for (std::uint32_t x = a_.row_ptr[row]; x < a_.row_ptr[row + 1] && columns_.size() < most; ++x) {
      if (a_.cols[x] == kNoRow) continue;
      const std::uint32_t* const first = b_.cols.data() + b_.row_ptr[a_.cols[x]];
      const std::uint64_t count = b_.row_ptr[a_.cols[x] + 1] - b_.row_ptr[a_.cols[x]];
      columns_.insert(columns_.end(), first, first + std::min(count, most - columns_.size()));
    }
  }

  std::uint64_t num_distinct() {
    if (marks_.empty()) {
      std::sort(columns_.begin(), columns_.end());
      return static_cast<std::uint64_t>(std::unique(columns_.begin(), columns_.end()) - columns_.begin());
    }
    std::uint64_t distinct = 0;
    for (const std::uint32_t column : columns_) {
      distinct += marks_[column] == 0 ? 1 : 0;
      marks_[column] = 1;
      if (distinct == marks_.size()) break;  // full rows: few of their pairs show it
    }
    if (columns_.size() > marks_.size()) {
      std::fill(marks_.begin(), marks_.end(), 0);
    } else {
      for (const std::uint32_t column : columns_) marks_[column] = 0;
    }
    return distinct;
  }

  const PackedOperand& a_;
  const PackedOperand& b_;
  std::vector<std::uint8_t> marks_;  // [blocks_per_side], or empty
  std::vector<std::uint32_t> columns_;
};

}  // namespace

CBlockEstimate estimate_c_blocks(const PackedOperand& a, const PackedOperand& b,
                                 std::span<const std::uint64_t> row_pairs, std::uint32_t blocks_per_side,
                                 const Run& run) {
  std::uint64_t total = 0;
  double squares = 0;
  for_ranges(run, row_pairs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      total += row_pairs[r];
      squares += static_cast<double>(row_pairs[r]) * static_cast<double>(std::min(row_pairs[r], kMaxMarkedPairs));
    }
  });
  // A pair at random lies in a row of `pairs_met` pairs on average: where rows are long, few of them tell enough.
  const double pairs_met = total == 0 ? 1 : squares / static_cast<double>(total);
  const auto enough = static_cast<std::uint64_t>(static_cast<double>(kSampledPairs) / std::max(1.0, pairs_met));
  const std::uint64_t samples = std::min(std::clamp(enough, kMinSamples, kSamples), total);
  RowSampler sampler(a, b, blocks_per_side);
  std::uint64_t before = 0;
  std::uint64_t taken = 0;
  double sum = 0;
  CBlockEstimate out;
  for_ranges(run, row_pairs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      before += row_pairs[r];
      std::uint64_t here = 0;  // samples that fall on this row
      while (taken < samples && taken * (total / samples) < before) ++taken, ++here;
      if (here == 0) continue;
      const double blocks_per_pair = sampler.blocks_per_pair(r, row_pairs[r]);
      const auto pairs = static_cast<double>(row_pairs[r]);
      out.rows.insert(out.rows.end(), here, {.pairs = pairs, .c_blocks = pairs * blocks_per_pair});
      sum += static_cast<double>(here) * blocks_per_pair;
    }
  });
  if (samples != 0) out.c_blocks = sum / static_cast<double>(samples) * static_cast<double>(total);
  return out;
}

}  // namespace spmm::cpu
