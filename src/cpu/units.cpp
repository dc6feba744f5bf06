#include "cpu/units.hpp"

#include <algorithm>

#include "plan/tiles.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kUnitsPerThread = 32;                 // the last ones level out what the others differ
constexpr std::uint64_t kMinUnitPairs = 1u << 13;             // far more work than handing out a unit
constexpr std::uint64_t kMaxUnitPairs = 1u << 22;             // some 10 ms, so that output flows early
constexpr std::uint64_t kColumnGrain = plan::tile_blocks(1);  // no tile is cut
constexpr std::uint64_t kMaxParts = 1u << 12;                 // of one row

}  // namespace

UnitMaker::UnitMaker(std::span<const std::uint64_t> pairs, std::uint32_t blocks_per_side, std::uint64_t buffer_records,
                     unsigned num_threads)
    : pairs_(pairs), blocks_per_side_(blocks_per_side), buffer_records_(buffer_records) {
  for (const std::uint64_t of_row : pairs) total_pairs_ += of_row;
  target_pairs_ = std::clamp(total_pairs_ / (num_threads * kUnitsPerThread), kMinUnitPairs, kMaxUnitPairs);
}

std::uint64_t UnitMaker::records_of(std::uint32_t row) const {
  return std::min(pairs_[row], blocks_per_side_);
}

std::uint64_t UnitMaker::num_parts(std::uint32_t row) const {
  // For balance, and so that a part fits a buffer unless that makes parts tiny (then it fills several).
  const std::uint64_t for_balance = pairs_[row] / target_pairs_;
  const std::uint64_t for_buffers = (records_of(row) - 1) / buffer_records_ + 1;
  const std::uint64_t wanted = std::max(for_balance, std::min(for_buffers, pairs_[row] / kMinUnitPairs));
  const std::uint64_t most = std::max<std::uint64_t>(1, blocks_per_side_ / kColumnGrain);
  return std::clamp<std::uint64_t>(wanted, 1, std::min(kMaxParts, most));
}

std::uint32_t UnitMaker::column_at(std::uint64_t part, std::uint64_t parts) const {
  if (part == parts) return static_cast<std::uint32_t>(blocks_per_side_);
  return static_cast<std::uint32_t>(blocks_per_side_ * part / parts / kColumnGrain * kColumnGrain);
}

bool UnitMaker::next(Unit& unit) {
  const auto num_rows = static_cast<std::uint32_t>(pairs_.size());
  while (row_ < num_rows && pairs_[row_] == 0) ++row_;
  if (row_ == num_rows) return false;
  const std::uint64_t parts = num_parts(row_);
  unit = {.row_begin = row_,
          .row_end = row_ + 1,
          .col_begin = column_at(part_, parts),
          .col_end = column_at(part_ + 1, parts)};
  if (++part_ < parts) return true;
  part_ = 0;
  ++row_;
  if (parts > 1) return true;
  std::uint64_t unit_pairs = pairs_[unit.row_begin];
  std::uint64_t unit_records = records_of(unit.row_begin);
  while (row_ < num_rows && unit_pairs + pairs_[row_] <= target_pairs_ &&
         unit_records + records_of(row_) <= buffer_records_) {
    unit_pairs += pairs_[row_];
    unit_records += records_of(row_);
    ++row_;
  }
  unit.row_end = row_;
  return true;
}

}  // namespace spmm::cpu
