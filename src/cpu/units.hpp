// Cuts the product into units of work in output order.
#pragma once

#include <cstdint>
#include <span>

namespace spmm::cpu {

/// Block rows [row_begin, row_end) of the compressed A, all columns; or one row, columns [col_begin, col_end).
struct Unit {
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
  std::uint32_t col_begin = 0;
  std::uint32_t col_end = 0;
};

/// Hands out units one by one: rows are joined until they reach about `target` pairs or `buffer_records` result
/// blocks, a row beyond either is cut into column ranges of about equal width, between
/// tiles (plan/tiles.hpp).
class UnitMaker {
 public:
  /// Shapes: pairs [num_rows], which must outlive this.
  UnitMaker(std::span<const std::uint64_t> pairs, std::uint32_t blocks_per_side, std::uint64_t buffer_records,
            unsigned num_threads);

  /// False at the end.
  bool next(Unit& unit);

  [[nodiscard]] std::uint64_t total_pairs() const { return total_pairs_; }

 private:
  [[nodiscard]] std::uint64_t records_of(std::uint32_t row) const;
  [[nodiscard]] std::uint64_t num_parts(std::uint32_t row) const;
  [[nodiscard]] std::uint32_t column_at(std::uint64_t part, std::uint64_t parts) const;

  std::span<const std::uint64_t> pairs_;
  std::uint64_t blocks_per_side_;
  std::uint64_t buffer_records_;
  std::uint64_t total_pairs_ = 0;
  std::uint64_t target_pairs_ = 0;
  std::uint32_t row_ = 0;
  std::uint64_t part_ = 0;  // of row_
};

}  // namespace spmm::cpu
