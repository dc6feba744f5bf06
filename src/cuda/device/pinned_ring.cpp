// Pinned slots of one product: taken from the device one by one, lent out and given back.
#include "cuda/device/pinned_ring.hpp"

namespace spmm::cuda {

PinnedRing::PinnedRing(DeviceContext& context, std::uint64_t max_slots) : context_(context), max_slots_(max_slots) {
  free_.reserve(max_slots);  // put() must not allocate
}

PinnedRing::~PinnedRing() {
  for (std::byte* slot : free_) context_.put_slot(slot);
}

std::byte* PinnedRing::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    std::byte* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  if (num_lent_ == max_slots_) return nullptr;
  std::byte* const slot = context_.take_slot();
  ++num_lent_;
  return slot;
}

void PinnedRing::put(std::byte* slot) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

bool PinnedRing::all_back() const {
  const std::lock_guard lock(mutex_);
  return free_.size() == num_lent_;
}

}  // namespace spmm::cuda
