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
  PinnedRing(DeviceContext& context, std::uint64_t max_slots);
  /// All slots must be back, and unused by the device.
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  /// A free slot; null if all are out. Errors: OutOfMemory.
  std::byte* take();
  void put(std::byte* slot) noexcept;

  [[nodiscard]] DeviceContext& context() const { return context_; }
  [[nodiscard]] std::uint64_t max_slots() const { return max_slots_; }
  /// Whether every slot is back.
  [[nodiscard]] bool all_back() const;

 private:
  DeviceContext& context_;
  std::uint64_t max_slots_;
  mutable std::mutex mutex_;
  std::vector<std::byte*> free_;  // room for max_slots
  std::uint64_t num_lent_ = 0;    // by the context
};

}  // namespace spmm::cuda
