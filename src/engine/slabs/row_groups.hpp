// Neighbouring block rows of B that are read together, if a table of all rows would take too much memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "engine/slabs/index_pass.hpp"
#include "engine/slabs/sorted_matrix.hpp"
#include "spmm/stream.hpp"

namespace spmm::slabs {

/// Where the records of each group of block rows of B begin, and which groups a slab needs.
class RowGroups {
 public:
  RowGroups(const Source& b, std::uint32_t num_groups, std::uint64_t read_bytes, const Run& run)
      : nb_(b.header().blocks_per_side()),
        num_groups_(num_groups),
        begins_(num_groups + std::uint64_t{1}),
        marks_((num_groups + std::uint64_t{63}) / 64) {
    std::fill(begins_.begin(), begins_.end(), 0);
    const auto count = [&](std::uint64_t, BlockIndex at) {
      std::atomic_ref(begins_[group_of(at.i) + std::uint64_t{1}]).fetch_add(1, std::memory_order_relaxed);
    };
    for_indices(b, run, count, read_bytes);
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  }

  /// Forgets all marks.
  void restart() {
    std::fill(marks_.begin(), marks_.end(), 0);
    num_runs_ = 0;
  }

  /// Runs of marked groups: no fewer than there are ranges of their records.
  [[nodiscard]] std::int64_t num_runs() const { return num_runs_; }

  /// Marks the group of a block row; returns the records that this adds.
  std::uint32_t add(std::uint32_t row) {
    const std::uint32_t group = group_of(row);
    const std::uint64_t bit = std::uint64_t{1} << group % 64;
    if ((marks_[group / 64] & bit) != 0) return 0;
    marks_[group / 64] |= bit;
    num_runs_ += 1 - (group != 0 && is_marked(group - 1)) - (group + 1 < num_groups_ && is_marked(group + 1));
    return num_records(row);
  }

  /// The records of the group of a block row.
  [[nodiscard]] RecordRange records_of(std::uint32_t row) const {
    const std::uint64_t group = group_of(row);
    return {.begin = begins_[group], .end = begins_[group + 1]};
  }

  [[nodiscard]] std::uint32_t num_records(std::uint32_t row) const {
    const RecordRange records = records_of(row);
    return records.end - records.begin;
  }

  /// The records of all marked groups; neighbours are joined.
  [[nodiscard]] std::vector<RecordRange> marked() const {
    std::size_t num_ranges = 0;
    for_marked([&](RecordRange, bool is_apart) { num_ranges += is_apart ? 1 : 0; });
    std::vector<RecordRange> ranges;
    ranges.reserve(num_ranges);
    for_marked([&](RecordRange group, bool is_apart) {
      if (is_apart) ranges.push_back(group);
      ranges.back().end = group.end;
    });
    return ranges;
  }

 private:
  [[nodiscard]] bool is_marked(std::uint64_t group) const { return (marks_[group / 64] >> group % 64 & 1) != 0; }
  [[nodiscard]] std::uint32_t group_of(std::uint32_t row) const {
    return static_cast<std::uint32_t>(row * num_groups_ / nb_);
  }

  /// Calls visit(records, whether they begin behind others that are not marked) for all marked groups with records.
  template <class Visit>
  void for_marked(const Visit& visit) const {
    std::uint64_t end = ~std::uint64_t{0};  // of the group before
    for (std::uint64_t word = 0; word < marks_.size(); ++word) {
      for (std::uint64_t left = marks_[word]; left != 0; left &= left - 1) {
        const std::uint64_t g = word * 64 + static_cast<unsigned>(std::countr_zero(left));
        const RecordRange group{.begin = begins_[g], .end = begins_[g + 1]};
        if (group.begin == group.end) continue;
        visit(group, group.begin != end);
        end = group.end;
      }
    }
  }

  std::uint64_t nb_;
  std::uint64_t num_groups_;
  AlignedArray<std::uint32_t> begins_;  // [groups + 1]
  AlignedArray<std::uint64_t> marks_;   // [groups / 64] a bit for each: needed
  std::int64_t num_runs_ = 0;
};

}  // namespace spmm::slabs
