#include "cpu/rows/range.hpp"

#include <algorithm>

namespace spmm {
namespace {

constexpr std::uint64_t kMaxParts = 1u << 12;       // of one row
constexpr std::uint64_t kMaxBins = 1u << 12;        // of columns
constexpr std::uint64_t kWeighedBlocks = 1u << 17;  // of B, at most

}  // namespace

std::uint64_t RangeCutter::blocks_of(std::uint32_t row) const {
  return std::min<std::uint64_t>(counts_.pairs[row], counts_.num_columns);
}

std::uint64_t RangeCutter::num_parts(std::uint32_t row, const RangeLimits& limits) const {
  if (counts_.keeps_rows_whole) return 1;
  const std::uint64_t pairs = counts_.pairs[row];
  const std::uint64_t for_blocks = (blocks_of(row) - 1) / limits.part_blocks + 1;
  const std::uint64_t wanted = std::max(pairs / limits.pairs, std::min(for_blocks, pairs / limits.least_part_pairs));
  const std::uint64_t most = std::max<std::uint64_t>(1, counts_.num_columns / kColumnGrain);
  return std::clamp<std::uint64_t>(wanted, 1, std::min(kMaxParts, most));
}

/// Half of the work of some columns is by their share of B's blocks, half by their number.
void RangeCutter::weigh_columns() {
  const std::uint64_t bins = std::clamp<std::uint64_t>(counts_.num_columns / kColumnGrain, 1, kMaxBins);
  std::vector<std::uint32_t> blocks(bins, 0);
  const std::uint64_t stride = counts_.b_columns.size() / kWeighedBlocks | 1;
  for (std::uint64_t y = 0; y < counts_.b_columns.size(); y += stride) {
    ++blocks[counts_.b_columns[y] * bins / counts_.num_columns];
  }
  const std::uint64_t weighed = counts_.b_columns.size() / stride + 1;
  work_.assign(1, 0);
  for (const std::uint32_t of_bin : blocks) {
    work_.push_back(work_.back() + of_bin / static_cast<double>(weighed) + 1 / static_cast<double>(bins));
  }
}

/// Where a part of the present row begins.
std::uint32_t RangeCutter::column_at(std::uint64_t part) const {
  if (part == 0 || part == parts_) return part == 0 ? 0 : counts_.num_columns;
  const std::uint64_t num_bins = work_.size() - 1;
  const std::uint64_t first = counts_.first_columns.empty() ? 0 : counts_.first_columns[row_];
  const double skipped = work_[first * num_bins / counts_.num_columns];
  const double before = skipped + (work_.back() - skipped) * static_cast<double>(part) / static_cast<double>(parts_);
  const auto bin = static_cast<std::uint64_t>(std::lower_bound(work_.begin(), work_.end() - 2, before) - work_.begin());
  return static_cast<std::uint32_t>(counts_.num_columns * bin / num_bins / kColumnGrain * kColumnGrain);
}

bool RangeCutter::next(Range& range, const RangeLimits& limits) {
  const std::span<const std::uint64_t> pairs = counts_.pairs;
  while (row_ < pairs.size() && pairs[row_] == 0) ++row_;
  if (row_ == pairs.size()) return false;
  if (part_ == 0) parts_ = num_parts(row_, limits);
  if (parts_ > 1) {
    if (work_.empty()) weigh_columns();
    while (part_ + 1 < parts_ && column_at(part_) == column_at(part_ + 1)) ++part_;
    range = {
        .row_begin = row_, .row_end = row_ + 1, .column_begin = column_at(part_), .column_end = column_at(part_ + 1)};
    if (++part_ == parts_) part_ = 0, ++row_;
    return true;
  }
  range = {.row_begin = row_, .row_end = 0, .column_begin = 0, .column_end = counts_.num_columns};
  std::uint64_t num_pairs = pairs[row_];
  std::uint64_t num_blocks = blocks_of(row_);
  for (++row_;
       row_ < pairs.size() && num_pairs + pairs[row_] <= limits.pairs && num_blocks + blocks_of(row_) <= limits.blocks;
       ++row_) {
    num_pairs += pairs[row_];
    num_blocks += blocks_of(row_);
  }
  range.row_end = row_;
  return true;
}

}  // namespace spmm
