// The pinned slots of one product: on the way in, then on the way out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/device/context.hpp"

namespace spmm::cuda {

/// Slots of kernels::kRingSlotBytes, lent by the context when first needed, at most max_slots; they go back to it with
/// the ring. Threads: any.
class PinnedRing {
 public:
  PinnedRing(DeviceContext& context, std::uint64_t max_slots) : context_(context), max_slots_(max_slots) {
    free_.reserve(max_slots);  // put() must not allocate
  }
  /// All slots must be back, and unused by the device.
  ~PinnedRing() {
    for (std::byte* slot : free_) context_.put_slot(slot);
  }
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  /// A free slot; null if all are out. Errors: OutOfMemory.
  std::byte* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty() && num_lent_ == max_slots_) return nullptr;
    if (free_.empty()) {
      std::byte* const slot = context_.take_slot();
      ++num_lent_;
      return slot;
    }
    std::byte* const slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void put(std::byte* slot) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

  [[nodiscard]] DeviceContext& context() const { return context_; }
  [[nodiscard]] std::uint64_t max_slots() const { return max_slots_; }
  /// Whether every slot is back.
  [[nodiscard]] bool all_back() const {
    const std::lock_guard lock(mutex_);
    return free_.size() == num_lent_;
  }

 private:
  DeviceContext& context_;
  std::uint64_t max_slots_;
  mutable std::mutex mutex_;
  std::vector<std::byte*> free_;  // room for max_slots
  std::uint64_t num_lent_ = 0;    // by the context
};

}  // namespace spmm::cuda
