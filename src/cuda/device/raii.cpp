// Device memory of a product: counted, limited, and taken from the pool of the device.
#include "cuda/device/raii.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.hpp"

namespace spmm::cuda {
namespace {

constexpr std::uint64_t kSmallBytes = 8u << 20;  // all small buffers of S1, and some more
constexpr std::uint64_t kMostSmall = 1u << 20;
constexpr std::uint64_t kPlenty = 16 * kSmallBytes;

}  // namespace

DeviceMemory::~DeviceMemory() {
  if (std::byte* const small = std::exchange(small_, nullptr)) release(small, kSmallBytes);
}

void DeviceMemory::cut_small_buffers() {
  if (free_bytes() >= kPlenty) small_ = static_cast<std::byte*>(allocate(kSmallBytes, "small buffers"));
}

void* DeviceMemory::cut(std::uint64_t bytes) noexcept {
  if (small_ == nullptr || bytes > kMostSmall) return nullptr;
  const std::uint64_t room = (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  const std::uint64_t at = small_used_.fetch_add(room);
  return at + room <= kSmallBytes ? small_ + at : nullptr;
}

void DeviceMemory::check_limit(std::uint64_t used_bytes, const char* what) {
  const std::string where = text("device memory for ", what);
  if (used_bytes > limit_bytes_) {
    throw OutOfMemory(
        where,
        text("need ", human_bytes(used_bytes), " (", used_bytes, " bytes), the limit is ", human_bytes(limit_bytes_)),
        "raise EngineOptions::memory_limit_bytes, or use ProductOptions::backend = cpu");
  }
  if (share_ == nullptr) return;
  const std::lock_guard lock(share_mutex_);
  const std::uint64_t reserved = share_->reserved().device;
  if (used_bytes <= reserved || share_->grow_device(used_bytes - reserved)) return;
  throw OutOfMemory(where,
                    text("need ", human_bytes(used_bytes), ", and other products hold all but ",
                         human_bytes(reserved + share_->free().device)),
                    "run fewer products at once, or raise the memory limit");
}

std::uint64_t DeviceMemory::most_bytes() const {
  if (share_ == nullptr) return limit_bytes_;
  return std::min(limit_bytes_, share_->reserved().device + share_->free().device);
}

std::uint64_t DeviceMemory::free_bytes() const {
  const std::uint64_t most = most_bytes();
  const std::uint64_t used = used_bytes_;
  return most - std::min(most, used);
}

void* DeviceMemory::allocate(std::uint64_t bytes, const char* what) {
  if (bytes == 0) return nullptr;
  if (void* const small = cut(bytes)) return small;
  const std::uint64_t used = used_bytes_.fetch_add(bytes) + bytes;
  void* data = nullptr;
  try {
    check_limit(used, what);
    data = allocate_from_device(bytes, what);
  } catch (...) {
    used_bytes_ -= bytes;
    throw;
  }
  std::uint64_t peak = peak_bytes_.load();
  while (peak < used && !peak_bytes_.compare_exchange_weak(peak, used)) {
  }
  return data;
}

void* DeviceMemory::allocate_from_device(std::uint64_t bytes, const char* what) {
  if (callers_ != nullptr) {
    if (void* const data = callers_->allocate(bytes, kDeviceAlignment, stream_.get())) return data;
    throw OutOfMemory(text("device memory for ", what), text("the allocator has no ", human_bytes(bytes)),
                      "free memory in its pool");
  }
  return context().allocate(bytes, stream_.get(), what);
}

void DeviceMemory::release(void* data, std::uint64_t bytes) noexcept {
  const auto* const at = static_cast<const std::byte*>(data);
  if (small_ != nullptr && at >= small_ && at < small_ + kSmallBytes) return;  // goes with all of them
  if (callers_ == nullptr) {
    context().release(data, stream_.get());
  } else {
    callers_->release(data, stream_.get());
  }
  used_bytes_ -= bytes;
}

}  // namespace spmm::cuda
