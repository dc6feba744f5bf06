// Partial products of several devices of this process, of a part of the inner dimension each.
#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "base/record_errors.hpp"
#include "cuda/device_pipelines.hpp"
#include "cuda/divided_upload.hpp"

namespace spmm::cuda {
namespace {

/// The records of one part, which lie on its device already.
class PartSource : public Source {
 public:
  PartSource(const Source& whole, std::uint64_t num_records) : whole_(whole), header_(whole.header()) {
    header_.num_blocks = static_cast<std::uint32_t>(num_records);
  }

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override { return whole_.original_index(index); }
  void read(std::uint64_t, std::uint64_t, std::byte*) const override {}
  void check_unchanged() const override {}

 private:
  const Source& whole_;
  MatrixHeader header_;
};

/// What the devices know of each other. Threads: any.
class CommonState {
 public:
  explicit CommonState(const Run& run) : run_(run) {}

  /// The first error stays.
  void fail(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  /// Errors: DeviceStopped once a device has failed.
  void check() const {
    const std::lock_guard lock(mutex_);
    if (failure_) throw DeviceStopped{};
  }
  void rethrow_failure() const {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

  void add_rows(std::uint64_t rows) {
    const std::lock_guard lock(mutex_);
    rows_ += rows;
  }
  void end_rows(std::uint64_t rows) {
    const std::lock_guard lock(mutex_);
    rows_done_ += rows;
    if (run_.on_progress) run_.on_progress(Stage::multiply, rows_done_, rows_);
  }

 private:
  const Run& run_;
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  std::uint64_t rows_ = 0;  // of the parts that have been counted
  std::uint64_t rows_done_ = 0;
};

/// The output of one device: its partial product, in order.
class PartOutput : public PanelOutput {
 public:
  PartOutput(Sink& sink, CommonState& state) : sink_(sink), state_(state) {}

  [[nodiscard]] std::uint32_t num_ranges() const override { return 1; }
  void start(const ResultRanges&, plan::Execution& execution, const plan::Statistics&) override {
    for (const plan::Panel& panel : execution.panels) {
      rows_.push_back(panel.num_rows);
      state_.add_rows(panel.num_rows);
    }
  }
  [[nodiscard]] bool reports_progress() const override { return true; }
  void begin(std::size_t, std::uint64_t num_blocks) override {
    num_blocks_ += num_blocks;
    check_num_output_blocks(sink_, num_blocks_);
  }
  void append(std::size_t, std::span<const std::byte> records, std::function<void()> release) override {
    sink_.append(records, std::move(release));
  }
  void end(std::size_t panel) override { state_.end_rows(rows_[panel]); }
  void check() const override { state_.check(); }

 private:
  Sink& sink_;
  CommonState& state_;
  std::vector<std::uint32_t> rows_;  // of each panel
  std::uint64_t num_blocks_ = 0;
};

/// One product, in parts of its inner dimension.
class DividedProduct {
 public:
  DividedProduct(const Source& a, const Source& b, std::span<Sink* const> partials, const plan::Execution& expected,
                 const plan::Decide& decide, const Run& run)
      : a_(a), b_(b), partials_(partials), run_(run), state_(run), devices_(expected, decide, run) {}

  ProductStats run(plan::Execution& execution) {
    {
      const std::vector<UploadTarget> targets = devices_.upload_targets();
      std::vector<PinnedRing*> rings;
      for (std::size_t d = 0; d < devices_.size(); ++d) rings.push_back(&devices_.pipeline(d).ring());
      parts_ = upload_divided(a_, b_, execution.inner_borders, rings, targets, run_);
    }
    const std::vector<ProductStats> stats = devices_.on_all([this](std::size_t d) { return compute(d); }, state_);
    std::uint64_t pairs = 0;
    for (const ProductStats& one : stats) pairs += one.pairs;
    plan::Execution ran;
    const ProductStats all = devices_.total(stats, pairs, ran);
    ran.inner_borders = execution.inner_borders;
    ran.inner_division = true;
    ran.partial_bytes = execution.partial_bytes;
    ran.host_need_bytes = execution.host_need_bytes;
    ran.device_need_bytes = std::max(ran.device_need_bytes, execution.device_need_bytes);
    ran.predicted_s = execution.predicted_s;
    execution = std::move(ran);
    return all;
  }

 private:
  ProductStats compute(std::size_t d) {
    const PartSource a(a_, parts_[d].a_records);
    const PartSource b(b_, parts_[d].b_records);
    OperandSide side_a(a, false, false);
    OperandSide side_b(b, true, false);
    PartOutput output(*partials_[d], state_);
    return devices_.pipeline(d).run(std::move(parts_[d].parsed), side_a, side_b, output);
  }

  const Source& a_;
  const Source& b_;
  std::span<Sink* const> partials_;
  const Run& run_;
  CommonState state_;
  DevicePipelines devices_;
  std::vector<InnerPart> parts_;  // goes before the memory of the pipelines
};

}  // namespace

ProductStats multiply_parts(const Source& a, const Source& b, std::span<Sink* const> partials,
                            plan::Execution& execution, const plan::Decide& decide, const Run& run) {
  const DeviceGuard guard(run.device->device());
  return DividedProduct(a, b, partials, execution, decide, run).run(execution);
}

}  // namespace spmm::cuda
