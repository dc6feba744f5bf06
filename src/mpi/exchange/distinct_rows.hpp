// The different numbers in a list, ascending, and where each of them is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spmm::mpi {

/// Memory: 4 bytes per number; if there are not many more rows than numbers, 4 bytes per row as well.
class DistinctRows {
 public:
  /// Values: numbers below num_rows.
  DistinctRows(std::span<const std::uint32_t> numbers, std::uint64_t num_rows);

  [[nodiscard]] const std::vector<std::uint32_t>& rows() const { return rows_; }
  /// Position of a row in rows(). Values: a number that was in the list.
  [[nodiscard]] std::uint32_t position(std::uint32_t row) const;

 private:
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> positions_;  // [num_rows], or empty: search
};

}  // namespace spmm::mpi
