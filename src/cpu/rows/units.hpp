// Cuts the product into units of work in output order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spmm::cpu {

/// Block rows [row_begin, row_end) of the compressed A, all columns; or one row, columns [col_begin, col_end).
struct RowUnit {
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
  std::uint32_t col_begin = 0;
  std::uint32_t col_end = 0;
};

/// Hands out units one by one: rows are joined until they reach about `target` pairs or `buffer_records` result
/// blocks, a row beyond either is cut into column ranges of about equal work, between
/// tiles (plan/panels/tiles.hpp).
class RowUnitMaker {
 public:
  /// Shapes: pairs [num_rows], which must outlive this; b_cols [blocks of B], or empty: ranges of equal width.
  /// Values: b_cols = block columns; a sample of them counts.
  RowUnitMaker(std::span<const std::uint64_t> pairs, std::uint32_t blocks_per_side, std::uint64_t buffer_records,
               unsigned num_threads, std::span<const std::uint32_t> b_cols = {});

  /// Values: most_records = result blocks up to which rows are joined or not cut, buffer_records at most. False at the
  /// end.
  bool next(RowUnit& unit, std::uint64_t most_records);

 private:
  [[nodiscard]] std::uint64_t records_of(std::uint32_t row) const;
  [[nodiscard]] std::uint64_t num_parts(std::uint32_t row, std::uint64_t most_records) const;
  void weigh_columns(std::span<const std::uint32_t> b_cols);
  [[nodiscard]] std::uint32_t column_at(std::uint64_t part, std::uint64_t parts) const;

  std::span<const std::uint64_t> pairs_;
  std::uint64_t blocks_per_side_;
  std::uint64_t buffer_records_;
  std::uint64_t total_pairs_ = 0;
  std::uint64_t target_pairs_ = 0;
  std::vector<double> work_;  // [bins of columns + 1], of all columns before a bin; empty: as much in each column
  std::uint32_t row_ = 0;     // the next one
  std::uint64_t part_ = 0;    // of that row
  std::uint64_t parts_ = 0;   // in which it is cut, once it has begun
};

}  // namespace spmm::cpu
