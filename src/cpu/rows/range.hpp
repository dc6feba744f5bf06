// A piece of work: a rectangle of the result, and how a product is cut into such.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spmm {

/// Stored block rows of A and block columns of B.
struct Range {
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
  std::uint32_t column_begin = 0;
  std::uint32_t column_end = 0;
};

/// What is known of a product before it is cut.
struct RowCounts {
  std::span<const std::uint64_t> pairs;  ///< [stored rows of A] exact
  std::uint32_t num_columns = 0;         ///< block columns of B
  /// Those of B's blocks, in any order: they stand for the pairs of a row. Empty: pairs are spread evenly.
  std::span<const std::uint32_t> b_columns{};
  /// Columns before it have no pairs. Shapes: [stored rows of A]; empty: 0 of all rows.
  std::span<const std::uint32_t> first_columns{};
  bool keeps_rows_whole = false;
};

/// What a range may hold. C blocks are bounded by the pairs and columns of a row.
struct RangeLimits {
  std::uint64_t pairs = 0;             ///< of several rows; a row of twice as many and more is cut by columns
  std::uint64_t blocks = 0;            ///< of C, several rows
  std::uint64_t part_blocks = 0;       ///< of C, a part of a row,
  std::uint64_t least_part_pairs = 0;  ///< unless that made parts smaller than this
};

/// Cuts a product into ranges that ascend and cover every row with a pair: whole rows, or columns of one row with
/// about equal work. Memory: the counts must outlive it. Threads: one at a time.
class RangeCutter {
 public:
  /// Ranges of columns begin at a multiple of it.
  static constexpr std::uint32_t kColumnGrain = 8;

  explicit RangeCutter(const RowCounts& counts) : counts_(counts) {}

  /// The next range; false at the end. Limits may differ from range to range.
  bool next(Range& range, const RangeLimits& limits);

 private:
  [[nodiscard]] std::uint64_t blocks_of(std::uint32_t row) const;
  [[nodiscard]] std::uint64_t num_parts(std::uint32_t row, const RangeLimits& limits) const;
  void weigh_columns();
  [[nodiscard]] std::uint32_t column_at(std::uint64_t part) const;

  RowCounts counts_;
  std::vector<double> work_;  // [bins of columns + 1], of all columns before a bin
  std::uint32_t row_ = 0;     // the next one
  std::uint64_t part_ = 0;    // of that row
  std::uint64_t parts_ = 0;   // in which it is cut, once it has begun
};

}  // namespace spmm
