#include "cuda/download.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/workers.hpp"
#include "kernels/tuning.hpp"
#include "spmm/types.hpp"

namespace spmm::cuda {
namespace {

constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

/// Ends the work of the thread when the downloader is destroyed; never leaves this file.
struct Stopped {};

}  // namespace

Downloader::Downloader(PanelOutput& output, std::uint32_t m, PinnedRing& ring, DeviceContext& context,
                       StageEvents& events, const Run& run)
    : output_(output),
      record_bytes_(output_record_bytes(m)),
      events_(events),
      run_(run),
      stream_(context),
      slot_bytes_(kernels::kRingSlotBytes / record_bytes_ * record_bytes_),
      ring_(ring),
      thread_(start_thread([this] { work(); })) {}

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
  Sending sending = begin(panel);
  while (sending.at < sending.total) send_slice(sending);
  end(sending);
}

std::uint64_t Downloader::finish() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
  wait(lock, [&] { return num_busy_ == 0 && ring_.all_back(); });
  return num_blocks_;
}

/// Waits for a panel where none is on its way, else takes one only if that need not wait for it.
PackedPanel* Downloader::next_to_begin(std::size_t num_sending) {
  std::unique_lock lock(mutex_);
  if (num_sending == 0) changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
  if (stopped_ || queue_.empty()) return nullptr;
  PackedPanel* const panel = queue_.front();
  if (num_sending != 0 && !(num_sending < output_.max_sending() && panel->ready.is_reached())) return nullptr;
  queue_.pop_front();
  return panel;
}

void Downloader::work() {
  try {
    const DeviceGuard guard(stream_.context().device());
    std::deque<Sending> sending;  // the next one in front
    while (true) {
      if (PackedPanel* const panel = next_to_begin(sending.size())) sending.push_back(begin(*panel));
      if (sending.empty()) return;
      Sending one = sending.front();
      sending.pop_front();
      if (one.at < one.total) send_slice(one);
      if (one.at < one.total) {
        sending.push_back(one);
      } else {
        end(one);
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

Downloader::Sending Downloader::begin(PackedPanel& panel) {
  panel.ready.synchronize();
  const std::uint64_t num_blocks = panel.num_blocks.value();
  output_.begin(panel.number, num_blocks);
  num_blocks_ += num_blocks;
  return {.panel = &panel, .total = num_blocks * record_bytes_};
}

void Downloader::send_slice(Sending& sending) {
  run_.check_cancelled();
  const std::uint64_t bytes = std::min(slot_bytes_, sending.total - sending.at);
  std::byte* slot = take_slot();
  std::function<void()> release;
  try {
    release = [this, slot] { put_back(slot); };
    events_.timed(Stage::d2h, stream_,
                  [&] { copy_async(slot, sending.panel->records.data() + sending.at, bytes, stream_); },
                  {.bytes = bytes, .panel = sending.panel->number});
    stream_.synchronize();
  } catch (...) {
    stream_.settle();  // the copy may be on its way
    put_back(slot);
    throw;
  }
  sending.at += bytes;
  run_.clock.add_bytes(Stage::d2h, bytes);
  const auto timing = run_.clock.scope(Stage::write);
  // From here on the sink gives the slot back, whatever happens.
  output_.append(sending.panel->number, {slot, bytes}, std::move(release));
}

void Downloader::end(const Sending& sending) {
  output_.end(sending.panel->number);
  const std::lock_guard lock(mutex_);
  sending.panel->busy = false;
  --num_busy_;
  changed_.notify_all();
}

std::byte* Downloader::take_slot() {
  std::unique_lock lock(mutex_);
  std::byte* slot = nullptr;
  wait(lock, [&] { return (slot = ring_.take()) != nullptr; });
  return slot;
}

void Downloader::put_back(std::byte* slot) noexcept {
  // Notified under the lock: the destructor may run as soon as the last slot is back.
  const std::lock_guard lock(mutex_);
  ring_.put(slot);
  changed_.notify_all();
}

}  // namespace spmm::cuda
