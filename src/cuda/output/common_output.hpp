// The sink of a product that several devices share: each hands its pieces over in turn, or at their places.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/run/run.hpp"
#include "cuda/output/panel_output.hpp"
#include "plan/panels/output_places.hpp"
#include "plan/panels/panel_shares.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// What the devices know of each other. Threads: any.
/// A piece waits for earlier ones: to be counted where the sink takes places, to be handed over where it does not.
/// Every device goes through its pieces in the common order, so the first unfinished piece of all never waits.
class CommonOutput {
 public:
  CommonOutput(Sink& sink, std::uint32_t num_devices, const Run& run)
      : sink_(sink), num_devices_(num_devices), run_(run), at_places_(sink.takes_places()) {}

  /// The first device that comes here shares out; the others must have come to the same panels.
  /// Returns the numbers of the device's pieces, and leaves their panels in the execution.
  std::vector<std::size_t> start(std::uint32_t device, plan::Execution& execution, const plan::Statistics& statistics);

  /// Counts a piece and waits for its turn, or until its place is known. Returns the blocks in front of it. Errors:
  /// OutOfMemory (too many blocks), Interrupted, DeviceStopped.
  std::uint64_t begin(std::size_t piece, std::uint64_t num_blocks);
  void append(std::uint64_t first_block, std::span<const std::byte> records, Release release);
  void end(std::size_t piece);

  /// Stops all devices. The first error stays.
  void fail(std::exception_ptr error) noexcept;
  /// Errors: DeviceStopped once a device has failed.
  void check() const;
  /// Errors: the first one.
  void rethrow_failure() const;

 private:
  void check_locked() const;
  template <class Body>
  void with_sink(const Body& body);

  Sink& sink_;
  std::uint32_t num_devices_;
  const Run& run_;
  const bool at_places_;
  std::mutex sink_mutex_;  // the sink takes one caller at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::exception_ptr failure_;
  std::vector<plan::Panel> panels_;  // of the whole product, before they were shared out
  std::vector<plan::SharedPanel> pieces_;
  std::optional<plan::OutputPlaces> places_;
  std::uint64_t num_blocks_ = 0;
  std::uint64_t num_rows_ = 0;  // of A
  std::uint64_t rows_done_ = 0;
};

/// What one device sees of it.
class DeviceOutput : public PanelOutput {
 public:
  /// Shapes: record_bytes of the result.
  DeviceOutput(CommonOutput& shared, std::uint32_t device, std::uint64_t record_bytes)
      : shared_(shared), device_(device), record_bytes_(record_bytes) {}

  void start(plan::Execution& execution, const plan::Statistics& statistics) override {
    pieces_ = shared_.start(device_, execution, statistics);
    next_blocks_.resize(pieces_.size());
  }
  [[nodiscard]] std::uint64_t max_buffers() const override { return kMaxPanelBuffers; }
  [[nodiscard]] bool reports_progress() const override { return true; }
  void begin(std::size_t panel, std::uint64_t num_blocks) override {
    next_blocks_.at(panel) = shared_.begin(pieces_.at(panel), num_blocks);
  }
  void append(std::size_t panel, std::span<const std::byte> records, Release release) override {
    const std::uint64_t first_block = next_blocks_[panel];
    next_blocks_[panel] += records.size() / record_bytes_;
    shared_.append(first_block, records, std::move(release));
  }
  void end(std::size_t panel) override { shared_.end(pieces_[panel]); }
  void check() const override { shared_.check(); }

 private:
  CommonOutput& shared_;
  std::uint32_t device_;
  std::uint64_t record_bytes_;
  std::vector<std::size_t> pieces_;
  std::vector<std::uint64_t> next_blocks_;  // [pieces]
};

}  // namespace spmm::cuda
