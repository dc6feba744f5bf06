// Distinct numbers by sorting, or by a table if there are many.
#include "mpi/exchange/distinct_rows.hpp"

#include <algorithm>

namespace spmm::mpi {

DistinctRows::DistinctRows(std::span<const std::uint32_t> numbers, std::uint64_t num_rows) {
  constexpr std::uint64_t kSmall = 1u << 16;
  if (num_rows > 4 * numbers.size() + kSmall) {
    rows_.assign(numbers.begin(), numbers.end());
    std::sort(rows_.begin(), rows_.end());
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
    return;
  }
  positions_.assign(num_rows, 0);
  for (const std::uint32_t number : numbers) positions_[number] = 1;
  for (std::uint32_t row = 0; row < num_rows; ++row) {
    if (positions_[row] == 0) continue;
    positions_[row] = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back(row);
  }
}

std::uint32_t DistinctRows::position(std::uint32_t row) const {
  if (!positions_.empty()) return positions_[row];
  return static_cast<std::uint32_t>(std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin());
}

}  // namespace spmm::mpi
