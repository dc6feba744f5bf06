// Slabs of rows of A that keep the limits, found as they come, and rows that are streamed.
#include "engine/slabs/sorted_product.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "base/records/release_once.hpp"
#include "engine/slabs/row_groups.hpp"
#include "engine/slabs/streamed_rows.hpp"
#include "plan/models/run_models.hpp"
#include "plan/partition.hpp"

namespace spmm::slabs {
namespace {

/// Hands records on and knows which of them the next sink still holds: the buffers of one slab are free before those of
/// the next one are allocated.
class SlabSink : public Sink {
 public:
  explicit SlabSink(Sink& next) : next_(next), held_(std::make_shared<Held>()) {}

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

/// Records of A, whole block rows, and the records of B in the groups that they need.
struct SlabOfA {
  RecordRange records;
  std::uint64_t needed = 0;
  std::int64_t num_ranges = 0;  ///< of B, at most
  std::uint64_t pairs = 0;      ///< at most
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
        last_(execution) {
    const plan::StreamedRowsPlan plan = plan_rows(plan::kMostStreamedRows);
    num_windows_ = static_cast<double>(plan.num_windows);
    streams_well_ = !plan.has_many_windows;
  }

  /// Leaves the last exact execution, with the partition of the whole.
  ProductStats multiply(plan::Execution& execution) {
    const std::uint32_t num_records = a_.header().num_blocks;
    std::uint32_t num_slabs = 0;
    for (std::uint32_t begin = 0; begin < num_records || num_slabs == 0; ++num_slabs) {
      run_.check_cancelled();
      const SlabOfA slab = next_slab(begin);
      begin = slab.records.end;
      if (!fits(slab) || is_faster_streamed(slab)) {
        stream(slab);
        continue;
      }
      multiply_streamed();
      multiply_slab(slab);
    }
    multiply_streamed();
    adopt_last(last_, execution);
    execution.num_a_slabs = std::max(2U, num_slabs);
    execution.num_b_slabs = 1;
    set_prediction(execution);
    return total_;
  }

 private:
  /// What was decided on exact statistics, slab by slab, instead of what was expected of evenly spread blocks.
  void set_prediction(plan::Execution& execution) const {
    const plan::Statistics whole{.a = a_.header(), .b = b_.header()};
    execution.predicted_s = plan::sort_seconds({whole, execution_.slab_limits}) +
                            plan::start_seconds(execution, execution_.slab_limits) + predicted_s_;
    (execution.backend == Backend::cuda ? execution.predicted_cuda_s : execution.predicted_cpu_s) =
        execution.predicted_s;
  }

  [[nodiscard]] plan::StreamedRowsPlan plan_rows(std::uint64_t num_rows) const {
    return plan::plan_streamed_rows(
        a_.header(), plan::streamed_rows_limits(execution_.slab_limits, execution_.host_limit_bytes), num_rows);
  }

  [[nodiscard]] bool fits(const SlabOfA& slab) const {
    if (execution_.streams_all_rows()) return false;
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
      longer.pairs += groups_.num_records(at.j);
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
    const ProductStats stats = multiply_ranges({a, b});
    const plan::Statistics s{.a = a.header(),
                             .b = b.header(),
                             .num_pairs = static_cast<double>(stats.pairs),
                             .num_c_blocks = static_cast<double>(stats.num_blocks)};
    predicted_s_ += plan::sorted_slab_seconds(last_, {s, execution_.slab_limits}, static_cast<double>(slab.num_ranges));
  }

  /// Whether to build the slab takes longer than to read what its pairs need again and again.
  [[nodiscard]] bool is_faster_streamed(const SlabOfA& slab) const {
    const plan::RowsWork rows{.m = a_.header().m,
                              .a_blocks = static_cast<double>(slab.records.end - slab.records.begin),
                              .b_blocks = static_cast<double>(slab.needed),
                              .num_ranges = static_cast<double>(slab.num_ranges),
                              .pairs = static_cast<double>(slab.pairs),
                              .num_windows = num_windows_};
    const plan::Limits& limits = execution_.slab_limits;
    return streams_well_ && execution_.may_stream_rows() &&
           plan::streamed_rows_seconds(rows, limits) < plan::built_rows_seconds(rows, limits);
  }

  /// Its rows wait for others, which are multiplied with them.
  void stream(const SlabOfA& slab) {
    StreamedRow row{.records = {.begin = slab.records.begin, .end = slab.records.begin}};
    const auto add = [&](std::uint32_t end) {
      row.records.end = end;
      streamed_.push_back(std::exchange(row, {.records = {.begin = end, .end = end}}));
      if (streamed_.size() == plan::kMostStreamedRows) multiply_streamed();
    };
    std::uint32_t i = 0;
    for (std::uint32_t r = slab.records.begin; r < slab.records.end; ++r) {
      const BlockIndex at = indices_.at(r);
      if (r != row.records.begin && at.i != i) add(r);
      i = at.i;
      row.pairs += groups_.num_records(at.j);
    }
    add(slab.records.end);
  }

  /// All rows that wait.
  void multiply_streamed() {
    if (streamed_.empty()) return;
    const plan::StreamedRowsPlan plan = plan_rows(streamed_.size());
    ProductStats stats = multiply_streamed_rows({.a = a_, .b = b_, .groups = groups_}, streamed_, plan, sink_, run_);
    if (!total_.device.empty()) stats.device = total_.device;
    plan::Statistics s{.a = a_.header(), .b = b_.header()};
    s.num_pairs = static_cast<double>(stats.pairs);
    s.num_c_blocks = static_cast<double>(stats.num_blocks);
    s.a_rows = streamed_.size();
    s.a.num_blocks = 0;
    for (const StreamedRow& row : streamed_) s.a.num_blocks += row.records.end - row.records.begin;
    predicted_s_ += plan::streamed_seconds(last_, {s, execution_.slab_limits}, num_windows_);
    add_slab(stats, total_);
    streamed_.clear();
  }

  ProductStats multiply_ranges(const Inputs& inputs) {
    last_ = execution_;
    SlabSink sink(sink_);
    ProductStats stats = multiply_at_once_(inputs, sink, last_);
    add_slab(stats, total_);
    sink.wait(run_);
    return stats;
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
  double num_windows_ = 1;     ///< of a row of C that is streamed
  bool streams_well_ = false;  ///< they are few
  plan::Execution last_;
  ProductStats total_;
  double predicted_s_ = 0;  // of what is done
  std::uint32_t row_ = 0;
  std::vector<StreamedRow> streamed_;  // that wait
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
