#include "cpu/rows/units.hpp"

#include <algorithm>

#include "cpu/operands/diagonals.hpp"
#include "plan/models/host_models.hpp"
#include "plan/panels/tiles.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kUnitsPerThread = 32;                 // the last ones level out what the others differ
constexpr std::uint64_t kFullUnitsPerThread = 16;             // where rows of a unit are summed together
constexpr std::uint64_t kMinUnitPairs = 1u << 13;             // far more work than handing out a unit
constexpr std::uint64_t kMinPartPairs = 1u << 11;             // the same where blocks are large
constexpr std::uint64_t kMaxUnitPairs = 1u << 22;             // some 10 ms, so that output flows early
constexpr std::uint64_t kColumnGrain = plan::tile_blocks(1);  // no tile is cut
constexpr std::uint64_t kMaxParts = 1u << 12;                 // of one row
constexpr std::uint64_t kMaxBins = 1u << 12;                  // of columns
constexpr std::uint64_t kWeighedBlocks = 1u << 17;            // of B, at most

static_assert(kMaxDiagonals * kMaxDiagonals < kMinUnitPairs, "no row of diagonals is cut");

}  // namespace

RowUnitMaker::RowUnitMaker(std::span<const std::uint64_t> pairs, std::span<const std::uint32_t> borders,
                           std::uint32_t blocks_per_side, std::uint64_t buffer_records, unsigned num_threads,
                           std::span<const std::uint32_t> b_cols)
    : pairs_(pairs), blocks_per_side_(blocks_per_side), buffer_records_(buffer_records) {
  for (const std::uint64_t of_row : pairs) total_pairs_ += of_row;
  const bool has_full_rows =
      total_pairs_ / std::max<std::size_t>(1, pairs.size()) >= plan::kPairsOfFullRows * blocks_per_side;
  const std::uint64_t units = num_threads * (has_full_rows ? kFullUnitsPerThread : kUnitsPerThread);
  target_pairs_ = std::clamp(total_pairs_ / units, kMinUnitPairs, kMaxUnitPairs);
  const std::uint64_t longest = pairs.empty() ? 0 : *std::max_element(pairs.begin(), pairs.end());
  if (longest >= 2 * kMinUnitPairs) weigh_columns(b_cols);
  for (std::size_t x = 1; x < borders.size(); ++x) places_.push_back({.row = borders[x - 1], .end = borders[x]});
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
  for (std::size_t asked = 0; asked < places_.size(); ++asked) {
    const std::size_t range = turn_;
    turn_ = range + 1 == places_.size() ? 0 : range + 1;
    if (!next_of(places_[range], most_records, unit)) continue;
    unit.range = static_cast<std::uint32_t>(range);
    return true;
  }
  return false;
}

bool RowUnitMaker::next_of(RangePosition& place, std::uint64_t most_records, RowUnit& unit) const {
  while (place.row < place.end && pairs_[place.row] == 0) ++place.row;
  if (place.row == place.end) return false;
  if (place.part == 0) place.parts = num_parts(place.row, most_records);
  const std::uint64_t parts = place.parts;
  while (place.part + 1 < parts && column_at(place.part, parts) == column_at(place.part + 1, parts)) ++place.part;
  unit = {.row_begin = place.row,
          .row_end = place.row + 1,
          .col_begin = column_at(place.part, parts),
          .col_end = column_at(place.part + 1, parts)};
  if (++place.part < parts) return true;
  place.part = 0;
  ++place.row;
  if (parts > 1) return true;
  std::uint64_t unit_pairs = pairs_[unit.row_begin];
  std::uint64_t unit_records = records_of(unit.row_begin);
  while (place.row < place.end && unit_pairs + pairs_[place.row] <= target_pairs_ &&
         unit_records + records_of(place.row) <= most_records) {
    unit_pairs += pairs_[place.row];
    unit_records += records_of(place.row);
    ++place.row;
  }
  unit.row_end = place.row;
  return true;
}

}  // namespace spmm::cpu
