#include "cuda/output/download.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/run/parallel.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"
#include "spmm/types.hpp"

namespace spmm::cuda {
namespace {

constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

/// Ends the work of the thread when the downloader is destroyed; never leaves this file.
struct Stopped {};

}  // namespace

Downloader::Downloader(CommonOutput& output, std::uint32_t device, std::uint32_t m, PinnedRing& ring,
                       StageEvents& events, const Run& run)
    : output_(output),
      device_(device),
      record_bytes_(output_record_bytes(m)),
      events_(events),
      run_(run),
      stream_(ring.context()),
      slot_bytes_(kernels::kRingSlotBytes / record_bytes_ * record_bytes_),
      ring_(ring) {}

Downloader::~Downloader() {
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

void Downloader::start(plan::Execution& execution, unsigned long long* num_saturated) {
  output_.start(device_, execution);
  num_saturated_ = num_saturated;
  if (!execution.panels.empty()) thread_ = start_thread([this] { work(); });
}

void Downloader::check_failure() const {
  if (failure_) std::rethrow_exception(failure_);
  if (stopped_) throw Stopped{};
  run_.check_cancelled();
}

template <class Ready>
void Downloader::wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
  while (true) {
    check_failure();
    if (ready()) return;
    changed_.wait_for(lock, kCancelPeriod);
  }
}

void Downloader::wait_until_free(PackedPanel& panel) {
  output_.check();
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return !panel.busy; });
}

void Downloader::push(PackedPanel& panel) {
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

std::uint64_t Downloader::finish() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
  wait(lock, [&] { return num_busy_ == 0 && ring_.all_back(); });
  return num_blocks_;
}

/// Waits for a panel; null at the end.
PackedPanel* Downloader::next_panel() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
  if (stopped_ || queue_.empty()) return nullptr;
  PackedPanel* const panel = queue_.front();
  queue_.pop_front();
  return panel;
}

void Downloader::work() {
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

void Downloader::send(PackedPanel& panel) {
  panel.ready.synchronize();
  const std::uint64_t num_blocks = panel.num_blocks.value();
  output_.begin(panel.number, num_blocks);
  num_blocks_ += num_blocks;
  if (num_blocks != 0 && num_saturated_ != nullptr && !panel.target.is_counted) {
    kernels::launch_count_saturated(reinterpret_cast<const std::uint32_t*>(panel.records.data()),
                                    num_blocks * record_bytes_ / sizeof(std::uint32_t), num_saturated_, stream_.get());
  }
  const std::uint64_t total = num_blocks * record_bytes_;
  for (std::uint64_t at = 0; at < total || !copies_.empty();) {
    const std::uint64_t bytes = std::min(slot_bytes_, total - at);
    if (bytes != 0 && start_copy(panel, at, bytes)) {
      at += bytes;
    } else {
      hand_over();
    }
  }
  end(panel);
}

/// False if enough is on its way, or the slots are all out while a copy could be handed over.
bool Downloader::start_copy(PackedPanel& panel, std::uint64_t at, std::uint64_t bytes) {
  if (copies_.size() == kMaxCopies) return false;
  std::byte* const slot = take_slot(copies_.empty());
  if (slot == nullptr) return false;
  const Event& done = copied_.at(num_copies_ % kMaxCopies);
  try {
    copies_.push_back({.panel = &panel, .slot = slot, .bytes = bytes, .done = &done});
  } catch (...) {
    put_back(slot);
    throw;
  }
  ++num_copies_;
  events_.timed(Stage::d2h, stream_, [&] { copy_async(slot, panel.records.data() + at, bytes, stream_); },
                {.bytes = bytes, .panel = panel.number});
  done.record(stream_);
  return true;
}

/// The oldest copy, once it has arrived.
void Downloader::hand_over() {
  copies_.front().done->synchronize();
  const Copy copy = copies_.front();
  Release release = [this, slot = copy.slot] { put_back(slot); };
  copies_.pop_front();
  run_.clock.add_bytes(Stage::d2h, copy.bytes);
  {
    const auto timing = run_.clock.scope(Stage::write);
    // From here on the sink gives the slot back, whatever happens.
    output_.append(copy.panel->number, {copy.slot, copy.bytes}, std::move(release));
  }
}

void Downloader::end(PackedPanel& panel) {
  output_.end(panel.number);
  const std::lock_guard lock(mutex_);
  panel.busy = false;
  --num_busy_;
  changed_.notify_all();
}

/// After a failure: the slots go back, and nothing writes to them any more.
void Downloader::drop_copies() noexcept {
  if (copies_.empty()) return;
  stream_.settle();
  for (const Copy& copy : copies_) put_back(copy.slot);
  copies_.clear();
}

/// Null where all are out, and it may not wait for one.
std::byte* Downloader::take_slot(bool may_wait) {
  std::unique_lock lock(mutex_);
  std::byte* slot = nullptr;
  wait(lock, [&] { return (slot = ring_.take()) != nullptr || !may_wait; });
  return slot;
}

void Downloader::put_back(std::byte* slot) noexcept {
  // Notified under the lock: the destructor may run as soon as the last slot is back.
  const std::lock_guard lock(mutex_);
  ring_.put(slot);
  changed_.notify_all();
}

}  // namespace spmm::cuda
