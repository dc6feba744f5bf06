// Where the rows of a column slab of B begin in the scratch file, and which of them a range of A needs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/head.hpp"
#include "base/run/run.hpp"
#include "base/search.hpp"
#include "engine/out_of_core/sorted_matrix.hpp"

namespace spmm::out_of_core {

/// Reads the indices of a sorted matrix one by one, in pieces. Memory: read_bytes, one record at least.
class IndexReader {
 public:
  IndexReader(const SortedMatrix& matrix, std::uint64_t read_bytes)
      : matrix_(matrix),
        record_bytes_(input_record_bytes(matrix.header().m)),
        raw_(std::max<std::uint64_t>(1, read_bytes / record_bytes_) * record_bytes_) {}

  BlockIndex at(std::uint32_t record) {
    if (record < piece_.begin || record >= piece_.end) {
      const std::uint64_t end = std::uint64_t{record} + raw_.size() / record_bytes_;
      piece_ = {.begin = record,
                .end = static_cast<std::uint32_t>(std::min<std::uint64_t>(matrix_.header().num_blocks, end))};
      matrix_.read(piece_.begin, piece_.size(), raw_.data());
    }
    return read_index(raw_.data() + (record - piece_.begin) * record_bytes_);
  }

 private:
  const SortedMatrix& matrix_;
  std::uint64_t record_bytes_;
  AlignedArray<std::byte> raw_;
  RecordRange piece_;
};

/// The stored rows of a column slab in runs of equally many, as few in each as the memory allows; and a mark for each
/// run. Memory: kRunBytes for each run.
class RowTable {
 public:
  static constexpr std::uint64_t kRunBytes = 2 * sizeof(std::uint32_t) + 1;

  RowTable(const SortedMatrix& b, RecordRange slab, std::uint64_t most_runs, std::uint64_t read_bytes, const Run& run) {
    const auto timing = run.clock.scope(Stage::count);
    IndexReader indices(b, read_bytes);
    const std::uint64_t most = std::min<std::uint64_t>(most_runs, slab.size());
    first_rows_ = AlignedArray<std::uint32_t>(most, Pages::small);
    first_records_ = AlignedArray<std::uint32_t>(most + 1, Pages::small);
    std::uint32_t rows_in_run = 0;
    std::uint32_t row = 0;
    for (std::uint32_t record = slab.begin; record < slab.end; ++record) {
      if (record % kRecordsPerCheck == 0) run.check_cancelled();
      const std::uint32_t i = indices.at(record).i;
      if (record != slab.begin && i == row) continue;
      row = i;
      if (num_runs_ == most_runs && rows_in_run == rows_per_run_) join_pairs();
      if (num_runs_ == 0 || rows_in_run == rows_per_run_) {
        first_rows_[num_runs_] = row;
        first_records_[num_runs_++] = record;
        rows_in_run = 0;
      }
      ++rows_in_run;
    }
    first_records_[num_runs_] = slab.end;
    shorten(first_rows_, num_runs_);
    shorten(first_records_, num_runs_ + 1);
    marks_.assign(num_runs_ / 64 + 1, 0);
  }

  [[nodiscard]] std::uint64_t bytes() const { return num_runs_ * kRunBytes; }

  /// Forgets all marks.
  void restart() {
    std::fill(marks_.begin(), marks_.end(), 0);
    num_marked_ = 0;
  }
  [[nodiscard]] std::uint64_t num_marked() const { return num_marked_; }

  /// The run that a block row may lie in.
  struct Met {
    std::uint32_t num_records = 0;  ///< at least those of the row
    bool is_new = false;            ///< it was not marked before
  };

  /// Marks the run that a block row may lie in.
  Met add(std::uint32_t row) {
    const std::optional<std::size_t> run = find(row);
    if (!run) return {};
    std::uint64_t& word = marks_[*run / 64];
    const std::uint64_t bit = std::uint64_t{1} << *run % 64;
    const bool is_new = (word & bit) == 0;
    word |= bit;
    num_marked_ += is_new ? 1 : 0;
    return {.num_records = first_records_[*run + 1] - first_records_[*run], .is_new = is_new};
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
  static constexpr std::uint32_t kRecordsPerCheck = 1u << 20;

  /// The last answer is where the search begins: columns of a row of A ascend.
  [[nodiscard]] std::optional<std::size_t> find(std::uint32_t row) const {
    if (num_runs_ == 0 || row < first_rows_[0]) return std::nullopt;
    if (row < first_rows_[last_run_]) last_run_ = 0;
    const std::uint32_t* const behind = lower_bound_near<const std::uint32_t*>(
        first_rows_.begin() + last_run_, first_rows_.end(), std::uint64_t{row} + 1);
    const auto run = static_cast<std::size_t>(behind - first_rows_.begin()) - 1;
    last_run_ = run;
    if (rows_per_run_ == 1 && first_rows_[run] != row) return std::nullopt;
    return run;
  }

  /// Twice as many rows in each run.
  void join_pairs() {
    rows_per_run_ *= 2;
    num_runs_ /= 2;
    for (std::size_t run = 0; run < num_runs_; ++run) {
      first_rows_[run] = first_rows_[2 * run];
      first_records_[run] = first_records_[2 * run];
    }
  }

  /// Arrays, as the heap would keep what is freed.
  static void shorten(AlignedArray<std::uint32_t>& array, std::uint64_t size) {
    if (array.size() == size) return;
    AlignedArray<std::uint32_t> shorter(size, Pages::small);
    std::copy_n(array.data(), size, shorter.data());
    array = std::move(shorter);
  }

  std::uint32_t rows_per_run_ = 1;  // the last run may have fewer
  std::uint64_t num_runs_ = 0;
  AlignedArray<std::uint32_t> first_rows_;     // [runs]
  AlignedArray<std::uint32_t> first_records_;  // [runs + 1]
  std::vector<std::uint64_t> marks_;           // [runs / 64] a bit for each: needed
  std::uint64_t num_marked_ = 0;
  mutable std::size_t last_run_ = 0;
};

}  // namespace spmm::out_of_core
