// The sink of a product and the devices that compute it: each hands its panels over in turn, or at their places.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "plan/choice.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// Another device has failed; never leaves this folder.
struct DeviceStopped {};

/// What the devices of a product know of each other; there may be one. Threads: any.
/// A panel waits for earlier ones: to be counted where the sink takes places, to be handed over where it does not.
/// Every device goes through its panels in the common order, so the first unfinished panel of all never waits.
class CommonOutput {
 public:
  /// Values: m = side of the blocks.
  CommonOutput(Output& output, std::uint32_t m, std::uint32_t num_devices, const Run& run)
      : output_(output),
        record_bytes_(output_record_bytes(m)),
        num_devices_(num_devices),
        run_(run),
        at_places_(output.takes_places()) {}

  [[nodiscard]] std::uint32_t num_devices() const { return num_devices_; }

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// Waits until ready(), under the lock. Errors: DeviceStopped once a device has failed, Interrupted.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    while (true) {
      check();
      run_.check_cancelled();
      if (ready()) return;
      changed_.wait_for(lock, kCancelPeriod);
    }
  }
  /// As wait(), but ready() is all that ends it.
  template <class Ready>
  void settle(const Ready& ready) noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, ready);
  }
  void notify() noexcept { changed_.notify_all(); }

  /// All devices must have come to the same panels. Leaves those of the device in the execution, with their numbers.
  void start(std::uint32_t device, plan::Choice& execution) {
    const std::lock_guard lock(mutex_);
    check();
    if (places_.empty()) {
      panels_ = execution.panels;
      places_.resize(panels_.size());
      for (const plan::Panel& panel : panels_) num_rows_ += panel.num_rows;
    } else if (execution.panels != panels_) {
      throw std::logic_error("devices that share a product decided differently");
    }
    for (std::size_t x = 0; x < panels_.size(); ++x) execution.panels[x].number = x;
    std::erase_if(execution.panels,
                  [&](const plan::Panel& panel) { return num_devices_ > 1 && panel.device != device; });
  }

  /// Counts a panel, and waits for its turn or until its place is known. Errors: OutOfMemory (too many blocks),
  /// Interrupted, DeviceStopped.
  void begin(std::size_t panel, std::uint64_t num_blocks) {
    std::unique_lock lock(mutex_);
    num_blocks_ += num_blocks;
    try {
      check_num_output_blocks(num_blocks_);
    } catch (...) {  // no device's own failure
      if (!failure_) failure_ = std::current_exception();
    }
    places_.at(panel).num_blocks = num_blocks;
    for (; num_placed_ + 1 < places_.size() && places_[num_placed_].num_blocks; ++num_placed_) {
      places_[num_placed_ + 1].next_block = places_[num_placed_].next_block + *places_[num_placed_].num_blocks;
    }
    changed_.notify_all();
    wait(lock, [&] { return panel <= (at_places_ ? num_placed_ : num_ended_); });
  }

  /// Its records, in order, by one thread of its device; as Sink::write().
  void append(std::size_t panel, std::span<const std::byte> records, Release release) {
    std::uint64_t& next = places_[panel].next_block;
    const std::uint64_t first_block = std::exchange(next, next + records.size() / record_bytes_);
    try {
      const std::lock_guard lock(sink_mutex_);
      output_.write(first_block, records, std::move(release));
    } catch (...) {  // no device's own failure
      fail(std::current_exception());
      throw;
    }
  }

  void end(std::size_t panel) {
    const std::lock_guard lock(mutex_);
    ++num_ended_;
    changed_.notify_all();
    rows_done_ += panels_[panel].num_rows;
    if (run_.on_progress) run_.on_progress(Stage::multiply, rows_done_, num_rows_);
  }

  /// Stops all devices. The first error stays.
  void fail(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
    changed_.notify_all();
  }
  /// Errors: the first one.
  void rethrow_failure() const {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  static constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

  struct Place {
    std::optional<std::uint64_t> num_blocks{};
    std::uint64_t next_block = 0;  ///< of the result, that is handed over next; once all panels before are counted
  };
  void check() const {
    if (failure_) throw DeviceStopped{};
  }

  Output& output_;
  std::uint64_t record_bytes_;
  std::uint32_t num_devices_;
  const Run& run_;
  const bool at_places_;
  std::mutex sink_mutex_;  // the sink takes one caller at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::exception_ptr failure_;
  std::vector<plan::Panel> panels_;  // of the whole product
  std::vector<Place> places_;        // [panels], of which next_block belongs to who hands the panel over
  std::size_t num_placed_ = 0;       // panels in front of which all are counted
  std::size_t num_ended_ = 0;        // panels that have been handed over
  std::uint64_t num_blocks_ = 0;
  std::uint64_t num_rows_ = 0;  // of A
  std::uint64_t rows_done_ = 0;
};

}  // namespace spmm::cuda
