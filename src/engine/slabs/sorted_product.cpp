// Slabs of rows of A that keep the limits, found as they come, and single rows that need too much of B.
#include "engine/slabs/sorted_product.hpp"

#include <algorithm>
#include <atomic>
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
  explicit IndexReader(const SortedMatrix& matrix)
      : matrix_(matrix),
        record_bytes_(input_record_bytes(matrix.header().m)),
        raw_(std::max<std::uint64_t>(1, kReadBytes / record_bytes_) * record_bytes_) {}

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
  RowGroups(const Source& b, std::uint32_t num_groups, const Run& run)
      : nb_(b.header().blocks_per_side()), begins_(num_groups + std::uint64_t{1}), marks_(num_groups) {
    std::fill(begins_.begin(), begins_.end(), 0);
    std::fill(marks_.begin(), marks_.end(), 0);
    for_indices(b, run, [&](std::uint64_t, BlockIndex at) {
      std::atomic_ref(begins_[group_of(at.i) + std::uint64_t{1}]).fetch_add(1, std::memory_order_relaxed);
    });
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  }

  /// Forgets all marks.
  void restart() {
    if (++mark_ == 0) {
      std::fill(marks_.begin(), marks_.end(), 0);
      mark_ = 1;
    }
  }

  /// Marks the group of a block row; returns the records that this adds.
  std::uint32_t add(std::uint32_t row) {
    const std::uint32_t group = group_of(row);
    if (marks_[group] == mark_) return 0;
    marks_[group] = mark_;
    return begins_[group + std::uint64_t{1}] - begins_[group];
  }

  /// The records of all marked groups; neighbours are joined.
  [[nodiscard]] std::vector<RecordRange> marked() const {
    std::vector<RecordRange> ranges;
    for (std::uint64_t g = 0; g < marks_.size(); ++g) {
      if (marks_[g] != mark_ || begins_[g] == begins_[g + 1]) continue;
      if (!ranges.empty() && ranges.back().end == begins_[g]) {
        ranges.back().end = begins_[g + 1];
      } else {
        ranges.push_back({.begin = begins_[g], .end = begins_[g + 1]});
      }
    }
    return ranges;
  }

 private:
  [[nodiscard]] std::uint32_t group_of(std::uint32_t row) const {
    return static_cast<std::uint32_t>(row * std::uint64_t{marks_.size()} / nb_);
  }

  std::uint64_t nb_;
  AlignedArray<std::uint32_t> begins_;  // [groups + 1]
  AlignedArray<std::uint32_t> marks_;   // [groups] mark_: needed
  std::uint32_t mark_ = 0;
};

/// Records of A, whole block rows, and the records of B in the groups that they need.
struct SlabOfA {
  RecordRange records;
  std::uint64_t needed = 0;
  bool is_one_row = true;
};

class SortedProduct {
 public:
  SortedProduct(const ScratchOperands& operands, Sink& sink, const MultiplyAtOnce& multiply_at_once, const Run& run,
                const plan::Execution& execution)
      : a_(operands.a()),
        b_(operands.b()),
        groups_(all_records(b_), execution.num_row_groups, run),
        indices_(a_),
        sink_(sink),
        multiply_at_once_(multiply_at_once),
        run_(run),
        execution_(execution),
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
  /// As many block rows from a record on as fit, at least one.
  SlabOfA next_slab(std::uint32_t begin) {
    const plan::SlabCaps& caps = execution_.slab_caps;
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
      const bool fits = longer.records.end - begin <= caps.a_blocks && longer.needed <= caps.b_blocks;
      if (!fits && !longer.is_one_row) return slab;
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
    const plan::SlabCaps& caps = execution_.slab_caps;
    if (a.header().num_blocks <= caps.a_blocks && b.header().num_blocks <= caps.b_blocks) {
      return multiply_ranges({a, b});
    }
    if (a.header().num_blocks > execution_.row_caps.a_blocks) throw_row_too_long();
    multiply_row(a, b);
  }

  /// One block row of A by some columns of B after the other, which is the order of its result.
  void multiply_row(const Source& a, const RangesSource& b) {
    const std::uint64_t nb = b.header().blocks_per_side();
    const auto bucket_of = [&](std::uint32_t column) { return std::uint64_t{column} * kNumBuckets / nb; };
    std::vector<std::uint64_t> counts(kNumBuckets, 0);
    for_indices(b, run_, [&](std::uint64_t, BlockIndex at) {
      std::atomic_ref(counts[bucket_of(at.j)]).fetch_add(1, std::memory_order_relaxed);
    });
    const std::uint64_t most = execution_.row_caps.b_blocks;
    std::uint32_t num_parts = 0;
    for (std::uint32_t begin = 0, end = 0; begin < kNumBuckets; begin = end) {
      std::uint64_t count = 0;
      for (end = begin; end < kNumBuckets && (end == begin || count + counts[end] <= most); ++end) count += counts[end];
      if (count > most) throw_row_too_long();
      if (count == 0) continue;
      AlignedArray<std::uint32_t> records(count);
      std::atomic<std::uint64_t> num_found = 0;
      for_indices(b, run_, [&](std::uint64_t record, BlockIndex at) {
        if (bucket_of(at.j) < begin || bucket_of(at.j) >= end) return;
        records[num_found.fetch_add(1, std::memory_order_relaxed)] = static_cast<std::uint32_t>(record);
      });
      std::sort(records.begin(), records.end());
      multiply_ranges({a, SlabSource(b, std::move(records), run_)});
      ++num_parts;
    }
    most_parts_ = std::max(most_parts_, num_parts);
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
  RowGroups groups_;
  IndexReader indices_;
  Sink& sink_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  const plan::Execution& execution_;
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
