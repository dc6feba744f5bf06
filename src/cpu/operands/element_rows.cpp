#include "cpu/operands/element_rows.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spmm::cpu {
namespace {

constexpr unsigned kElementBits = 16;

}  // namespace

/// Columns and elements row by row, those of a row in the order of their records; ends_[r] = end of row r.
void ElementRows::part(std::uint32_t bucket, std::uint64_t count) {
  const plan::ShortKeyBits bits = runs_.bits();  // a copy: it cannot change while arrays are written
  const unsigned row_shift = bits.payload + bits.index;
  const std::uint64_t columns = (std::uint64_t{1} << bits.index) - 1;
  if (cols_.size() < count + kRankLanes) {
    cols_ = {};
    elements_ = {};
    cols_ = AlignedArray<std::uint32_t>(count + kRankLanes);
    elements_ = AlignedArray<std::uint16_t>(count);
  }
  ends_.assign(num_rows() + 1, 0);
  std::uint32_t* const counts = ends_.data() + 1;
  runs_.for_runs(bucket, [&](const std::uint64_t* entries, std::uint32_t num) {
    for (std::uint32_t x = 0; x < num; ++x) ++counts[entries[x] >> row_shift];
  });
  std::uint32_t before = 0;
  for (std::uint64_t row = 0; row < num_rows(); ++row) before += std::exchange(counts[row], before);
  std::uint32_t* const cols = cols_.data();
  std::uint16_t* const elements = elements_.data();
  runs_.for_runs(bucket, [&](const std::uint64_t* entries, std::uint32_t num) {
    for (std::uint32_t x = 0; x < num; ++x) {
      const std::uint64_t entry = entries[x];
      const std::uint32_t at = counts[entry >> row_shift]++;
      cols[at] = static_cast<std::uint32_t>(entry >> kElementBits & columns);
      elements[at] = static_cast<std::uint16_t>(entry);
    }
  });
}

/// False: a column occurs twice, and what was written is of no use.
bool ElementRows::emit_ranked(std::uint32_t first, std::uint32_t count, const BucketOutput& out) {
  alignas(64) std::array<std::uint32_t, kMaxRankedKeys> ranks;
  alignas(64) std::array<std::uint32_t, kMaxRankedKeys> keys;
  // Behind the row lies the next one: its columns are ranked as well, and not used.
  const std::uint32_t* const from = cols_.data() + first;
  std::copy_n(from, (count + kRankLanes - 1) / kRankLanes * kRankLanes, keys.data());
  const std::uint32_t sum = rank_(keys.data(), count, ranks.data());
  std::uint32_t* const cols = out.cols + first;
  std::uint16_t* const values = out.values + first;
  const std::uint16_t* const elements = elements_.data() + first;
  for (std::uint32_t x = 0; x < count; ++x) {
    cols[ranks[x]] = keys[x];
    values[ranks[x]] = elements[x];
  }
  return sum == count * (count - 1) / 2;
}

void ElementRows::emit_sorted(std::uint32_t first, std::uint32_t count, const BucketOutput& out) {
  items_.resize(std::max<std::size_t>(items_.size(), count));
  scratch_.resize(items_.size());
  for (std::uint32_t x = 0; x < count; ++x) {
    items_[x] = std::uint64_t{cols_[first + x]} << kElementBits | elements_[first + x];
  }
  const std::uint64_t* const sorted =
      digits_.sort({items_.data(), count}, scratch_.data(), kElementBits, kElementBits + runs_.bits().index);
  for (std::uint32_t x = 0; x < count; ++x) {
    out.cols[first + x] = static_cast<std::uint32_t>(sorted[x] >> kElementBits);
    out.values[first + x] = static_cast<std::uint16_t>(sorted[x]);
  }
}

BucketRows ElementRows::emit(std::uint32_t bucket, std::uint64_t count, const BucketOutput& out) {
  part(bucket, count);
  BucketRows found;
  for (std::uint32_t row = 0; row < num_rows(); ++row) {
    const std::uint32_t first = ends_[row];
    const std::uint32_t length = ends_[row + 1] - first;
    if (length == 0) continue;
    out.rows[found.num_rows] = runs_.first_row(bucket) + row;
    out.row_ptr[found.num_rows] = out.first + first;
    ++found.num_rows;
    if (length <= kMaxRankedKeys && emit_ranked(first, length, out)) continue;
    emit_sorted(first, length, out);
    const std::uint32_t* const cols = out.cols + first;
    const std::uint32_t* const twice = std::adjacent_find(cols, cols + length);
    if (twice == cols + length || found.twice_at != ElementRuns::kNone) continue;
    found.twice_at = std::uint64_t{out.first} + first + static_cast<std::uint64_t>(twice - cols) + 1;
    found.twice = {.i = runs_.first_row(bucket) + row, .j = *twice};
  }
  for (std::uint64_t x = 0; x < count; ++x) found.seen |= elements_[x];
  return found;
}

}  // namespace spmm::cpu
