// Packed records on the device -> pinned ring -> sink, in panel order, while later panels compute.
#pragma once

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/output/common_output.hpp"
#include "cuda/output/panels.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {

/// A thread that works for a device. Errors: DeviceError.
template <class Body>
std::jthread start_device_thread(const DeviceContext& context, Body&& body) {
  std::jthread thread = start_thread(std::forward<Body>(body));
  if (thread.joinable()) return thread;
  throw DeviceError(text("GPU ", shown_gpu(context.device())), "the system starts no thread for it",
                    "raise the limit of threads, or use ProductOptions::backend = cpu");
}

/// A thread that copies packed panels to the host in slices and hands them to the output, one panel after the other;
/// the next slice is copied while one is handed over. What it shares with its thread is guarded by the output's lock.
/// Threads: push() and finish() from one thread.
class Downloader : public PanelTaker {
 public:
  /// Values: device = number in the product; packing = the stream that panels are packed on.
  Downloader(CommonOutput& output, std::uint32_t device, std::uint32_t m, const Stream& packing, StageEvents& events,
             const Run& run)
      : output_(output),
        device_(device),
        record_bytes_(output_record_bytes(m)),
        events_(events),
        run_(run),
        packing_(packing),
        stream_(packing.context()),
        slot_bytes_(kernels::kRingSlotBytes / record_bytes_ * record_bytes_) {
    copies_.reserve(kMaxCopies);
  }

  /// Waits until the sink has released every slot.
  ~Downloader() override {
    {
      const auto lock = output_.lock();
      is_stopped_ = true;
      output_.notify();
    }
    if (thread_.joinable()) thread_.join();
    output_.settle([&] { return num_slots_ == 0; });
  }

  void start(plan::Choice& execution, unsigned long long* num_saturated) override {
    output_.start(device_, execution);
    num_saturated_ = num_saturated;
    max_slots_ = execution.num_buffers;
    if (!execution.panels.empty()) thread_ = start_device_thread(stream_.context(), [this] { work(); });
  }

  void wait_until_free(PackedPanel&) override {
    wait([&] { return num_pushed_ - num_sent_ < panels.size(); });
  }

  void push(PackedPanel& panel) override {
    if (!panel.ready) panel.ready.emplace();
    panel.ready->record(packing_);
    const auto lock = output_.lock();
    ++num_pushed_;
    output_.notify();
  }

  std::uint64_t finish() override {
    wait([&] { return num_sent_ == num_pushed_ && num_slots_ == 0; });
    return num_blocks_;
  }

 private:
  /// A slice on its way to a slot.
  struct Copy {
    std::byte* slot;
    std::uint64_t bytes;
    Event done;
  };
  /// Source: S3 to /dev/null on an H200: 145 us for a slice whose copy took 80; the host's part is hidden by the next
  /// copy.
  static constexpr std::size_t kMaxCopies = 2;

  /// Errors: as CommonOutput::wait(); DeviceStopped if the downloader goes.
  template <class Ready>
  void wait(const Ready& ready) {
    auto lock = output_.lock();
    output_.wait(lock, [&] {
      if (is_stopped_) throw DeviceStopped{};
      return ready();
    });
  }

  /// Until the downloader goes.
  void work() noexcept {
    try {
      on_device(stream_.context(), output_.num_devices() > 1, [&] {
        while (true) {
          wait([&] { return num_sent_ < num_pushed_; });
          send(panels[num_sent_ % panels.size()]);
        }
      });
    } catch (const DeviceStopped&) {  // something else says why
    } catch (...) {
      output_.fail(std::current_exception());
    }
    if (copies_.empty()) return;
    stream_.settle();  // nothing writes to slots that go back
    for (const Copy& copy : copies_) put_back(copy.slot);
    copies_.clear();
  }

  void send(PackedPanel& panel) {
    panel.ready->synchronize();
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
    const auto lock = output_.lock();
    ++num_sent_;
    output_.notify();
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

  /// Null where all are out, and it may not wait for one. Errors: OutOfMemory.
  std::byte* take_slot(bool may_wait) {
    std::byte* slot = nullptr;
    wait([&] {
      if (num_slots_ == max_slots_) return !may_wait;
      slot = stream_.context().slots().take();
      ++num_slots_;
      return true;
    });
    return slot;
  }

  void put_back(std::byte* slot) noexcept {
    // Notified under the lock: the destructor may run as soon as the last slot is back.
    const auto lock = output_.lock();
    stream_.context().slots().put(slot);
    --num_slots_;
    output_.notify();
  }

  CommonOutput& output_;
  std::uint32_t device_;
  std::uint64_t record_bytes_;
  StageEvents& events_;
  const Run& run_;
  const Stream& packing_;
  Stream stream_;
  std::uint64_t slot_bytes_;
  std::uint64_t max_slots_ = 0;
  unsigned long long* num_saturated_ = nullptr;
  // Of the thread:
  std::vector<Copy> copies_;  // [kMaxCopies at most], in the order of the stream
  // Guarded by the output's lock:
  std::uint64_t num_blocks_ = 0;
  std::uint64_t num_pushed_ = 0;  // panels that have been packed, or will be
  std::uint64_t num_sent_ = 0;    // those that have been handed over whole
  std::uint64_t num_slots_ = 0;   // that copies or the sink hold
  bool is_stopped_ = false;       // the thread drops what is left
  std::jthread thread_;           // last: it uses everything else
};

}  // namespace spmm::cuda
