// Slabs of rows of A that keep the limits, found as they come, and single rows that need too much of B.
#include "engine/slabs/sorted_product.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/release_once.hpp"
#include "engine/slabs/cut.hpp"
#include "engine/slabs/index_pass.hpp"
#include "engine/slabs/streams.hpp"
#include "plan/partition.hpp"
#include "spmm/error.hpp"

namespace spmm::slabs {
namespace {

/// Hands records on and knows which of them the next sink still holds: the buffers of one slab are free before those of
/// the next one are allocated.
class SlabSink : public Sink {
 public:
  explicit SlabSink(Sink& next) : next_(next), held_(std::make_shared<Held>()) {}

  [[nodiscard]] std::uint64_t max_blocks() const override { return next_.max_blocks(); }
  void append(std::span<const std::byte> records, std::function<void()> release) override {
    ReleaseOnce releaser(std::move(release));
    const auto shared = std::make_shared<ReleaseOnce>(std::move(releaser));
    {
      const std::lock_guard lock(held_->mutex);
      ++held_->count;
    }
    next_.append(records, [held = held_, shared] {
      shared->hand_on()();
      const std::lock_guard lock(held->mutex);
      --held->count;
      held->changed.notify_all();
    });
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  void wait(const Run& run) const {
    constexpr auto kCancelPeriod = std::chrono::milliseconds(50);
    std::unique_lock lock(held_->mutex);
    while (held_->count != 0) {
      held_->changed.wait_for(lock, kCancelPeriod);
      run.check_cancelled();
    }
  }

 private:
  struct Held {
    std::mutex mutex{};
    std::condition_variable changed{};
    std::uint64_t count = 0;
  };

  Sink& next_;
  std::shared_ptr<Held> held_;
};

/// Reads the indices of a sorted matrix from one record on, and may go back.
class IndexReader {
 public:
  IndexReader(const SortedMatrix& matrix, std::uint64_t read_bytes)
      : matrix_(matrix),
        record_bytes_(input_record_bytes(matrix.header().m)),
        raw_(std::max<std::uint64_t>(1, read_bytes / record_bytes_) * record_bytes_) {}

  BlockIndex at(std::uint32_t record) {
    if (record < first_ || record >= end_) {
      first_ = record;
      end_ = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(matrix_.header().num_blocks, std::uint64_t{record} + raw_.size() / record_bytes_));
      matrix_.read(first_, end_ - first_, raw_.data());
    }
    return read_index(raw_.data() + (record - first_) * record_bytes_);
  }

 private:
  const SortedMatrix& matrix_;
  std::uint64_t record_bytes_;
  AlignedArray<std::byte> raw_;
  std::uint32_t first_ = 0;
  std::uint32_t end_ = 0;
};

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
    return begins_[group + std::uint64_t{1}] - begins_[group];
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

/// Records of A, whole block rows, and the records of B in the groups that they need.
struct SlabOfA {
  RecordRange records;
  std::uint64_t needed = 0;
  std::int64_t num_ranges = 0;  ///< of B, at most
  bool is_one_row = true;
};

class SortedProduct {
 public:
  SortedProduct(const ScratchOperands& operands, Sink& sink, const MultiplyAtOnce& multiply_at_once, const Run& run,
                const plan::Execution& execution)
      : a_(operands.a()),
        b_(operands.b()),
        read_bytes_(plan::sorted_read_bytes(execution.host_limit_bytes)),
        groups_(all_records(b_), execution.num_row_groups, read_bytes_, run),
        indices_(a_, read_bytes_),
        sink_(sink),
        multiply_at_once_(multiply_at_once),
        run_(run),
        execution_(execution),
        most_ranges_(plan::most_record_ranges(execution.num_row_groups, execution.slab_caps)),
        last_(execution) {}

  /// Leaves the last exact execution, with the partition of the whole.
  ProductStats multiply(plan::Execution& execution) {
    const std::uint32_t num_records = a_.header().num_blocks;
    std::uint32_t num_slabs = 0;
    for (std::uint32_t begin = 0; begin < num_records || num_slabs == 0; ++num_slabs) {
      run_.check_cancelled();
      const SlabOfA slab = next_slab(begin);
      begin = slab.records.end;
      multiply_slab(slab);
    }
    adopt_last(last_, execution);
    execution.num_a_slabs = std::max(2U, num_slabs);
    execution.num_b_slabs = most_parts_;
    return total_;
  }

 private:
  [[nodiscard]] bool fits(const SlabOfA& slab) const {
    const auto is_within = [&](const plan::SlabCaps& caps) {
      return slab.records.end - slab.records.begin <= caps.a_blocks && slab.needed <= caps.b_blocks;
    };
    if (is_within(execution_.slab_caps)) return true;
    if (static_cast<std::uint64_t>(slab.num_ranges) > most_ranges_) return false;
    return std::any_of(execution_.longer_caps.begin(), execution_.longer_caps.end(), is_within);
  }

  /// As many block rows from a record on as fit, at least one.
  SlabOfA next_slab(std::uint32_t begin) {
    SlabOfA slab{.records = {.begin = begin, .end = begin}};
    SlabOfA longer = slab;
    groups_.restart();
    for (std::uint32_t r = begin; r < a_.header().num_blocks; ++r) {
      const BlockIndex at = indices_.at(r);
      if (r == begin || at.i != row_) {
        slab = longer;  // whole rows up to here
        longer.is_one_row = r == begin;
        row_ = at.i;
      }
      longer.records.end = r + 1;
      longer.needed += groups_.add(at.j);
      longer.num_ranges = groups_.num_runs();
      if (!longer.is_one_row && !fits(longer)) return slab;
    }
    return longer;
  }

  void multiply_slab(const SlabOfA& slab) {
    const RecordRange records = slab.records;
    const RangesSource a(a_,
                         records.end > records.begin ? std::vector<RecordRange>{records} : std::vector<RecordRange>{});
    groups_.restart();  // the search went too far
    for (std::uint32_t r = records.begin; r < records.end; ++r) groups_.add(indices_.at(r).j);
    const RangesSource b(b_, groups_.marked());
    if (fits(slab)) return multiply_ranges({a, b});
    if (a.header().num_blocks > execution_.row_caps.a_blocks) throw_row_too_long();
    std::uint32_t num_parts = 0;
    multiply_columns(a, b, {.begin = 0, .end = b.header().blocks_per_side()}, num_parts);
    most_parts_ = std::max(most_parts_, num_parts);
  }

  struct Columns {
    std::uint64_t begin;
    std::uint64_t end;
  };

  /// One block row of A by some columns of B after the other, which is the order of its result. Columns are counted in
  /// ranges; a range that does not fit is counted again, in smaller ones.
  void multiply_columns(const Source& a, const RangesSource& b, Columns all, std::uint32_t& num_parts) {
    const std::uint64_t num_columns = all.end - all.begin;
    const std::uint64_t num_ranges =
        std::min<std::uint64_t>(num_columns, plan::num_column_ranges(execution_.host_limit_bytes));
    const std::uint64_t of_range = (num_columns + num_ranges - 1) / num_ranges;
    std::vector<std::uint64_t> counts(num_ranges, 0);
    const auto count_column = [&](std::uint64_t, BlockIndex at) {
      if (at.j < all.begin || at.j >= all.end) return;
      std::atomic_ref(counts[(at.j - all.begin) / of_range]).fetch_add(1, std::memory_order_relaxed);
    };
    for_indices(b, run_, count_column, read_bytes_);
    const std::uint64_t most = execution_.row_caps.b_blocks;
    for (std::uint64_t begin = 0, end = 0; begin < num_ranges; begin = end) {
      std::uint64_t count = 0;
      for (end = begin; end < num_ranges && (end == begin || count + counts[end] <= most); ++end) count += counts[end];
      if (count == 0) continue;
      const Columns columns{.begin = all.begin + begin * of_range,
                            .end = std::min(all.end, all.begin + end * of_range)};
      if (count <= most) {
        multiply_ranges({a, SlabSource(b, records_of(b, columns, count), run_, read_bytes_)});
        ++num_parts;
      } else if (of_range > 1) {
        multiply_columns(a, b, columns, num_parts);
      } else {
        throw_row_too_long();
      }
    }
  }

  /// The records of B in some columns, of which there are `count`.
  AlignedArray<std::uint32_t> records_of(const RangesSource& b, Columns columns, std::uint64_t count) const {
    AlignedArray<std::uint32_t> records(count);
    std::atomic<std::uint64_t> num_found = 0;
    const auto pick = [&](std::uint64_t record, BlockIndex at) {
      if (at.j < columns.begin || at.j >= columns.end) return;
      records[num_found.fetch_add(1, std::memory_order_relaxed)] = static_cast<std::uint32_t>(record);
    };
    for_indices(b, run_, pick, read_bytes_);
    std::sort(records.begin(), records.end());
    return records;
  }

  void multiply_ranges(const Inputs& inputs) {
    last_ = execution_;
    SlabSink sink(sink_);
    add_slab(multiply_at_once_(inputs, sink, last_), sink_, total_);
    sink.wait(run_);
  }

  [[noreturn]] static void throw_row_too_long() {
    throw OutOfMemory("host memory", "a block row of A with what it needs of B does not fit the limit",
                      "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
  }

  const SortedMatrix& a_;
  const SortedMatrix& b_;
  std::uint64_t read_bytes_;
  RowGroups groups_;
  IndexReader indices_;
  Sink& sink_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  const plan::Execution& execution_;
  std::uint64_t most_ranges_;
  plan::Execution last_;
  ProductStats total_;
  std::uint32_t row_ = 0;
  std::uint32_t most_parts_ = 1;
};

}  // namespace

ProductStats multiply_sorted(const ScratchOperands& operands, Sink& sink, const MultiplyAtOnce& multiply_at_once,
                             const Run& run, plan::Execution& execution) {
  plan::Execution done = execution;
  const ProductStats stats = SortedProduct(operands, sink, multiply_at_once, run, execution).multiply(done);
  execution = std::move(done);
  return stats;
}

}  // namespace spmm::slabs
