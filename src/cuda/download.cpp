#include "cuda/download.hpp"

#include <algorithm>

#include "kernels/tuning.hpp"
#include "spmm/types.hpp"

namespace spmm::cuda {

Downloader::Downloader(Sink& sink, int device, std::uint32_t m, std::uint64_t num_slots, PinnedRing& ring,
                       StageEvents& events, const Run& run)
    : sink_(sink),
      device_(device),
      record_bytes_(output_record_bytes(m)),
      events_(events),
      run_(run),
      slot_bytes_(kernels::kRingSlotBytes / record_bytes_ * record_bytes_),
      num_slots_(num_slots),
      ring_(ring) {
  for (const PinnedBuffer<std::byte>& slot : ring_) free_slots_.push_back(slot.data());
  thread_ = std::jthread([this] { work(); });
}

Downloader::~Downloader() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    queue_.clear();
    if (!failure_) failure_ = std::make_exception_ptr(Interrupted("download", "stopped", "run again"));
  }
  changed_.notify_all();
  thread_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return free_slots_.size() == ring_.size(); });
}

void Downloader::rethrow_failure() {
  if (failure_) std::rethrow_exception(failure_);
}

void Downloader::wait_until_free(PackedPanel& panel) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !panel.busy || failure_; });
  rethrow_failure();
}

void Downloader::push(PackedPanel& panel) {
  {
    const std::lock_guard lock(mutex_);
    rethrow_failure();
    panel.busy = true;
    queue_.push_back(&panel);
  }
  changed_.notify_all();
}

std::uint64_t Downloader::finish() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return failure_ || (queue_.empty() && free_slots_.size() == ring_.size()); });
  rethrow_failure();
  return num_blocks_;
}

void Downloader::work() {
  try {
    check(cudaSetDevice(device_), "choose device");
    while (true) {
      PackedPanel* panel = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
        if (queue_.empty()) return;
        panel = queue_.front();
      }
      send(*panel);
      {
        const std::lock_guard lock(mutex_);
        panel->busy = false;
        if (!queue_.empty()) queue_.pop_front();  // a destructor may have emptied it
      }
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

void Downloader::send(PackedPanel& panel) {
  panel.ready.synchronize();
  const std::uint64_t total = panel.num_blocks[0] * record_bytes_;
  for (std::uint64_t at = 0; at < total; at += slot_bytes_) {
    run_.check_cancelled();
    const std::uint64_t bytes = std::min(slot_bytes_, total - at);
    std::byte* slot = take_slot();
    try {
      events_.timed(Stage::d2h, stream_, [&] { copy_async(slot, panel.records.data() + at, bytes, stream_); });
      stream_.synchronize();
    } catch (...) {
      put_back(slot);
      throw;
    }
    run_.clock.add_bytes(Stage::d2h, bytes);
    const auto timing = run_.clock.scope(Stage::write);
    sink_.append({slot, bytes}, [this, slot] { put_back(slot); });
  }
  num_blocks_ += panel.num_blocks[0];
}

std::byte* Downloader::take_slot() {
  std::unique_lock lock(mutex_);
  if (free_slots_.empty() && ring_.size() < num_slots_) {
    ring_.emplace_back(kernels::kRingSlotBytes);
    return ring_.back().data();
  }
  changed_.wait(lock, [&] { return !free_slots_.empty() || failure_; });
  rethrow_failure();
  std::byte* const slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void Downloader::put_back(std::byte* slot) {
  // Notified under the lock: the destructor may run as soon as the last slot is back.
  const std::lock_guard lock(mutex_);
  free_slots_.push_back(slot);
  changed_.notify_all();
}

}  // namespace spmm::cuda
