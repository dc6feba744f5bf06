// The entries of a bucket of rows in order: counted by row, then row by row by rank. Nothing is sorted by digits but
// long rows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "cpu/operands/element_runs.hpp"
#include "cpu/operands/order/digit_sorter.hpp"
#include "cpu/operands/order/row_ranks.hpp"

namespace spmm::cpu {

/// Where the rows of a bucket go.
struct BucketOutput {
  std::uint32_t* rows;      ///< [rows of the bucket that hold an entry, at most]
  std::uint32_t* row_ptr;   ///< the same
  std::uint32_t* cols;      ///< [entries of the bucket]
  std::uint16_t* values;    ///< the same
  std::uint32_t first = 0;  ///< entries before those of the bucket
};

/// What is known of a bucket once it lies in order.
struct BucketRows {
  std::uint32_t num_rows = 0;
  std::uint32_t seen = 0;                       ///< bits that occur in any element
  std::uint64_t twice_at = ElementRuns::kNone;  ///< the first entry whose position is that of the one before
  BlockIndex twice{};
};

/// Memory: 6 bytes per entry of the largest bucket, 4 per row of a bucket, 88 KB. Threads: one.
class ElementRows {
 public:
  ElementRows(const ElementRuns& runs, Isa isa) : runs_(runs), rank_(choose_rank_keys(isa)) {}

  /// Whether a bucket of so many entries has no more rows than it pays to count.
  [[nodiscard]] bool suits(std::uint64_t count) const { return num_rows() <= kRowsPerEntry * count; }

  BucketRows emit(std::uint32_t bucket, std::uint64_t count, const BucketOutput& out);

 private:
  static constexpr std::uint64_t kRowsPerEntry = 2;

  [[nodiscard]] std::uint64_t num_rows() const {
    return std::uint64_t{1} << (runs_.bits().index - runs_.bits().bucket);
  }
  void part(std::uint32_t bucket, std::uint64_t count);
  bool emit_ranked(std::uint32_t first, std::uint32_t count, const BucketOutput& out);
  void emit_sorted(std::uint32_t first, std::uint32_t count, const BucketOutput& out);

  const ElementRuns& runs_;
  RankKeys rank_;
  std::vector<std::uint32_t> ends_;  // [num_rows() + 1]
  AlignedArray<std::uint32_t> cols_;
  AlignedArray<std::uint16_t> elements_;
  std::vector<std::uint64_t> items_;  // of a long row
  std::vector<std::uint64_t> scratch_;
  DigitSorter digits_;
};

}  // namespace spmm::cpu
