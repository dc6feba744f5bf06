// Packed records on the device -> pinned ring -> sink, in panel order, while later panels compute.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/run/parallel.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/output/common_output.hpp"
#include "cuda/output/panels.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {

/// A thread that copies packed panels to the host in slices and hands them to the output, one panel after the other;
/// the next slice is copied while one is handed over. Where no thread can be started, push() does that itself. Threads:
/// push() and finish() from one thread.
class Downloader : public PanelTaker {
 public:
  /// Copies through the slots of `ring`, all of which are back when it goes. Values: device = number in the product.
  Downloader(CommonOutput& output, std::uint32_t device, std::uint32_t m, PinnedRing& ring, StageEvents& events,
             const Run& run)
      : output_(output),
        device_(device),
        record_bytes_(output_record_bytes(m)),
        events_(events),
        run_(run),
        stream_(ring.context()),
        slot_bytes_(kernels::kRingSlotBytes / record_bytes_ * record_bytes_),
        ring_(ring) {
    copies_.reserve(kMaxCopies);
  }

  /// Waits until the sink has released every slot.
  ~Downloader() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      stopped_ = true;
      queue_.clear();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ring_.all_back(); });
  }

  void start(plan::Execution& execution, unsigned long long* num_saturated) override {
    output_.start(device_, execution);
    num_saturated_ = num_saturated;
    if (!execution.panels.empty()) thread_ = start_thread([this] { work(); });
  }

  /// Together as much memory as two panels of the largest size.
  [[nodiscard]] std::uint64_t max_buffers() const override { return output_.num_devices() == 1 ? 2 : 16; }

  void wait_until_free(PackedPanel& panel) override {
    output_.check();
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return !panel.busy; });
  }

  void push(PackedPanel& panel) override {
    {
      const std::lock_guard lock(mutex_);
      check_failure();
      panel.busy = true;
      ++num_busy_;
      if (thread_.joinable()) queue_.push_back(&panel);
    }
    if (thread_.joinable()) return changed_.notify_all();
    try {
      send(panel);
    } catch (...) {
      drop_copies();
      throw;
    }
  }

  std::uint64_t finish() override {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    wait(lock, [&] { return num_busy_ == 0 && ring_.all_back(); });
    return num_blocks_;
  }

 private:
  /// Ends the work of the thread when the downloader is destroyed; never leaves this file.
  struct Stopped {};
  /// A slice on its way to a slot.
  struct Copy {
    std::byte* slot;
    std::uint64_t bytes;
    Event done;
  };
  /// Source: S3 to /dev/null on an H200: 145 us for a slice whose copy took 80; the host's part is hidden by the next
  /// copy.
  static constexpr std::size_t kMaxCopies = 2;

  void check_failure() const {
    if (failure_) std::rethrow_exception(failure_);
    if (stopped_) throw Stopped{};
    run_.check_cancelled();
  }

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    while (true) {
      check_failure();
      if (ready()) return;
      changed_.wait_for(lock, CommonOutput::kCancelPeriod);
    }
  }

  void work() {
    try {
      const DeviceGuard guard(stream_.context().device());
      while (PackedPanel* const panel = next_panel()) send(*panel);
    } catch (...) {
      drop_copies();
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  /// Waits for a panel; null at the end.
  PackedPanel* next_panel() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
    if (stopped_ || queue_.empty()) return nullptr;
    PackedPanel* const panel = queue_.front();
    queue_.pop_front();
    return panel;
  }

  void send(PackedPanel& panel) {
    panel.ready.synchronize();
    const std::uint64_t num_blocks = panel.num_blocks.value();
    output_.begin(panel.number, num_blocks);
    num_blocks_ += num_blocks;
    if (num_blocks != 0 && num_saturated_ != nullptr && !panel.target.is_counted) {
      kernels::launch_count_saturated(reinterpret_cast<const std::uint32_t*>(panel.records.data()),
                                      num_blocks * record_bytes_ / sizeof(std::uint32_t), num_saturated_,
                                      stream_.get());
    }
    const std::uint64_t total = num_blocks * record_bytes_;
    for (std::uint64_t at = 0; at < total || !copies_.empty();) {
      const std::uint64_t bytes = std::min(slot_bytes_, total - at);
      if (bytes != 0 && start_copy(panel, at, bytes)) {
        at += bytes;
      } else {
        hand_over(panel.number);
      }
    }
    output_.end(panel.number);
    const std::lock_guard lock(mutex_);
    panel.busy = false;
    --num_busy_;
    changed_.notify_all();
  }

  /// False if enough is on its way, or the slots are all out while a copy could be handed over.
  bool start_copy(PackedPanel& panel, std::uint64_t at, std::uint64_t bytes) {
    if (copies_.size() == kMaxCopies) return false;
    Event done;
    std::byte* const slot = take_slot(copies_.empty());
    if (slot == nullptr) return false;
    copies_.push_back({.slot = slot, .bytes = bytes, .done = std::move(done)});  // there is room
    events_.timed(Stage::d2h, stream_, [&] { copy_async(slot, panel.records.data() + at, bytes, stream_); },
                  {.bytes = bytes, .panel = panel.number});
    copies_.back().done.record(stream_);
    return true;
  }

  /// The oldest copy, once it has arrived.
  void hand_over(std::size_t panel) {
    copies_.front().done.synchronize();
    std::byte* const slot = copies_.front().slot;
    const std::uint64_t bytes = copies_.front().bytes;
    Release release = [this, slot] { put_back(slot); };
    copies_.erase(copies_.begin());
    run_.clock.add_bytes(Stage::d2h, bytes);
    const auto timing = run_.clock.scope(Stage::write);
    output_.append(panel, {slot, bytes}, std::move(release));  // gives the slot back, whatever happens
  }

  /// After a failure: the slots go back, and nothing writes to them any more.
  void drop_copies() noexcept {
    if (copies_.empty()) return;
    stream_.settle();
    for (const Copy& copy : copies_) put_back(copy.slot);
    copies_.clear();
  }

  /// Null where all are out, and it may not wait for one.
  std::byte* take_slot(bool may_wait) {
    std::unique_lock lock(mutex_);
    std::byte* slot = nullptr;
    wait(lock, [&] { return (slot = ring_.take()) != nullptr || !may_wait; });
    return slot;
  }

  void put_back(std::byte* slot) noexcept {
    // Notified under the lock: the destructor may run as soon as the last slot is back.
    const std::lock_guard lock(mutex_);
    ring_.put(slot);
    changed_.notify_all();
  }

  CommonOutput& output_;
  std::uint32_t device_;
  std::uint64_t record_bytes_;
  StageEvents& events_;
  const Run& run_;
  Stream stream_;
  std::uint64_t slot_bytes_;
  PinnedRing& ring_;
  unsigned long long* num_saturated_ = nullptr;
  std::uint64_t num_blocks_ = 0;
  // Of the thread that sends:
  std::vector<Copy> copies_;  // [kMaxCopies at most], in the order of the stream

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PackedPanel*> queue_;
  std::size_t num_busy_ = 0;  // panels that have not been handed over whole
  std::exception_ptr failure_;
  bool closing_ = false;  // no more panels
  bool stopped_ = false;  // those in the queue are dropped
  std::jthread thread_;   // last: it uses everything else
};

}  // namespace spmm::cuda
