#include "cpu/rows/units.hpp"

#include <algorithm>

#include "plan/panels/tiles.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kUnitsPerThread = 32;                 // the last ones level out what the others differ
constexpr std::uint64_t kMinUnitPairs = 1u << 13;             // far more work than handing out a unit
constexpr std::uint64_t kMinPartPairs = 1u << 11;             // the same where blocks are large
constexpr std::uint64_t kMaxUnitPairs = 1u << 22;             // some 10 ms, so that output flows early
constexpr std::uint64_t kColumnGrain = plan::tile_blocks(1);  // no tile is cut
constexpr std::uint64_t kMaxParts = 1u << 12;                 // of one row
constexpr std::uint64_t kMaxBins = 1u << 12;                  // of columns
constexpr std::uint64_t kWeighedBlocks = 1u << 17;            // of B, at most

}  // namespace

RowUnitMaker::RowUnitMaker(std::span<const std::uint64_t> pairs, std::uint32_t blocks_per_side,
                           std::uint64_t buffer_records, unsigned num_threads, std::span<const std::uint32_t> b_cols)
    : pairs_(pairs), blocks_per_side_(blocks_per_side), buffer_records_(buffer_records) {
  for (const std::uint64_t of_row : pairs) total_pairs_ += of_row;
  target_pairs_ = std::clamp(total_pairs_ / (num_threads * kUnitsPerThread), kMinUnitPairs, kMaxUnitPairs);
  const std::uint64_t longest = pairs.empty() ? 0 : *std::max_element(pairs.begin(), pairs.end());
  if (longest >= 2 * kMinUnitPairs) weigh_columns(b_cols);
}

std::uint64_t RowUnitMaker::records_of(std::uint32_t row) const {
  return std::min(pairs_[row], blocks_per_side_);
}

std::uint64_t RowUnitMaker::num_parts(std::uint32_t row, std::uint64_t most_records) const {
  // For balance, and so that a part fits a buffer unless that makes parts tiny (then it fills several). Large blocks:
  // the part of a buffer that stays in the cache. R-MAT, m = 16, 16 threads: 1.09 s instead of 1.99 s.
  const bool are_large = buffer_records_ <= kMinUnitPairs;
  const std::uint64_t part_records = are_large ? std::max<std::uint64_t>(1, most_records) : buffer_records_;
  const std::uint64_t for_balance = pairs_[row] / target_pairs_;
  const std::uint64_t for_buffers = (records_of(row) - 1) / part_records + 1;
  const std::uint64_t wanted =
      std::max(for_balance, std::min(for_buffers, pairs_[row] / (are_large ? kMinPartPairs : kMinUnitPairs)));
  const std::uint64_t most = std::max<std::uint64_t>(1, blocks_per_side_ / kColumnGrain);
  return std::clamp<std::uint64_t>(wanted, 1, std::min(kMaxParts, most));
}

/// Half of the work of a range of columns is by its share of B's blocks, which stand for pairs, half by its width.
void RowUnitMaker::weigh_columns(std::span<const std::uint32_t> b_cols) {
  const std::uint64_t bins = std::min(kMaxBins, blocks_per_side_ / kColumnGrain);
  if (b_cols.empty() || bins < 2) return;
  std::vector<std::uint32_t> blocks(bins, 0);
  const std::uint64_t stride = b_cols.size() / kWeighedBlocks | 1;
  for (std::uint64_t y = 0; y < b_cols.size(); y += stride) ++blocks[b_cols[y] * bins / blocks_per_side_];
  const auto weighed = static_cast<double>((b_cols.size() - 1) / stride + 1);
  work_.assign(1, 0);
  for (const std::uint32_t of_bin : blocks) {
    work_.push_back(work_.back() + 0.5 * of_bin / weighed + 0.5 / static_cast<double>(bins));
  }
}

std::uint32_t RowUnitMaker::column_at(std::uint64_t part, std::uint64_t parts) const {
  if (part == parts) return static_cast<std::uint32_t>(blocks_per_side_);
  if (!work_.empty()) {
    const std::uint64_t bins = work_.size() - 1;
    const double before = work_.back() * static_cast<double>(part) / static_cast<double>(parts);
    const auto bin =
        static_cast<std::uint64_t>(std::lower_bound(work_.begin(), work_.end() - 2, before) - work_.begin());
    return static_cast<std::uint32_t>(blocks_per_side_ * bin / bins / kColumnGrain * kColumnGrain);
  }
  return static_cast<std::uint32_t>(blocks_per_side_ * part / parts / kColumnGrain * kColumnGrain);
}

bool RowUnitMaker::next(RowUnit& unit, std::uint64_t most_records) {
  while (row_ < pairs_.size() && pairs_[row_] == 0) ++row_;
  if (row_ == pairs_.size()) return false;
  if (part_ == 0) parts_ = num_parts(row_, most_records);
  while (part_ + 1 < parts_ && column_at(part_, parts_) == column_at(part_ + 1, parts_)) ++part_;
  unit = {.row_begin = row_,
          .row_end = row_ + 1,
          .col_begin = column_at(part_, parts_),
          .col_end = column_at(part_ + 1, parts_)};
  if (++part_ < parts_) return true;
  part_ = 0;
  ++row_;
  if (parts_ > 1) return true;
  std::uint64_t unit_pairs = pairs_[unit.row_begin];
  std::uint64_t unit_records = records_of(unit.row_begin);
  while (row_ < pairs_.size() && unit_pairs + pairs_[row_] <= target_pairs_ &&
         unit_records + records_of(row_) <= most_records) {
    unit_pairs += pairs_[row_];
    unit_records += records_of(row_);
    ++row_;
  }
  unit.row_end = row_;
  return true;
}

}  // namespace spmm::cpu
