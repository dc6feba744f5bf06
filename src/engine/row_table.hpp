// Where the rows of B begin, and which of them a range of A needs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "engine/sorted_matrix.hpp"

namespace spmm::out_of_core {

/// The block rows of a matrix, from the first to the last that hold blocks, in runs of equally many; a mark for each
/// run.
class RowTable {
 public:
  /// Reads the matrix once. Values: sorted by rows, not empty. Memory: most_bytes, 16 at least. Errors: Interrupted.
  RowTable(const Source& b, std::uint64_t most_bytes, std::uint64_t read_bytes, const Run& run) {
    constexpr std::uint64_t kRunBits = 33;
    constexpr std::uint32_t kRecordsPerCheck = 1u << 20;
    const auto timing = run.clock.scope(Stage::count);
    IndexReader indices(b, read_bytes);
    const std::uint32_t num_records = b.header().num_blocks;
    const std::uint32_t last_row = indices.at(num_records - 1).i;
    first_row_ = indices.at(0).i;
    const std::uint64_t most_runs = std::max<std::uint64_t>(1, most_bytes * 8 / kRunBits);
    rows_per_run_ = static_cast<std::uint32_t>((last_row - first_row_) / most_runs + 1);
    num_runs_ = (last_row - first_row_) / rows_per_run_ + 1;
    first_records_ = AlignedArray<std::uint32_t>(std::uint64_t{num_runs_} + 1);
    std::uint64_t next = 0;
    for (std::uint32_t record = 0; record < num_records; ++record) {
      if (record % kRecordsPerCheck == 0) run.check_cancelled();
      const std::uint32_t at = (indices.at(record).i - first_row_) / rows_per_run_;
      while (next <= at) first_records_[next++] = record;
    }
    first_records_[num_runs_] = num_records;
    marks_.assign(num_runs_ / 64 + 1, 0);
  }

  [[nodiscard]] std::uint64_t bytes() const {
    return first_records_.size() * sizeof(std::uint32_t) + marks_.size() * 8;
  }

  /// Forgets all marks.
  void restart() {
    std::fill(marks_.begin(), marks_.end(), 0);
    num_marked_ = 0;
  }
  [[nodiscard]] std::uint64_t num_marked() const { return num_marked_; }

  struct Met {
    std::uint32_t num_records = 0;  ///< of the run, at least those of the row
    bool is_new = false;            ///< the run was not marked before
  };

  /// Marks the run of a block row.
  Met add(std::uint32_t row) {
    const std::uint32_t run = (row - first_row_) / rows_per_run_;
    if (row < first_row_ || run >= num_runs_ || first_records_[run] == first_records_[run + 1]) return {};
    std::uint64_t& word = marks_[run / 64];
    const std::uint64_t bit = std::uint64_t{1} << run % 64;
    const bool is_new = (word & bit) == 0;
    word |= bit;
    num_marked_ += is_new ? 1 : 0;
    return {.num_records = first_records_[run + 1] - first_records_[run], .is_new = is_new};
  }

  /// The records of all marked runs; neighbours are joined.
  [[nodiscard]] std::vector<RecordRange> marked() const {
    std::vector<RecordRange> ranges;
    ranges.reserve(num_marked_);  // growing would take twice as much
    for (std::size_t word = 0; word < marks_.size(); ++word) {
      for (std::uint64_t left = marks_[word]; left != 0; left &= left - 1) {
        const std::size_t run = word * 64 + static_cast<unsigned>(std::countr_zero(left));
        const RecordRange records{.begin = first_records_[run], .end = first_records_[run + 1]};
        if (ranges.empty() || ranges.back().end != records.begin) {
          ranges.push_back(records);
        } else {
          ranges.back().end = records.end;
        }
      }
    }
    return ranges;
  }

 private:
  std::uint32_t first_row_ = 0;
  std::uint32_t rows_per_run_ = 1;
  std::uint32_t num_runs_ = 0;
  AlignedArray<std::uint32_t> first_records_;  // [runs + 1]
  std::vector<std::uint64_t> marks_;           // [runs / 64] a bit for each: needed
  std::uint64_t num_marked_ = 0;
};

}  // namespace spmm::out_of_core
