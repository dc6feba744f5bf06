#include "cuda/raii.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace spmm::cuda {

void* DeviceMemory::allocate(std::uint64_t bytes, const char* what) {
  if (bytes == 0) return nullptr;
  const std::uint64_t used = used_bytes_.fetch_add(bytes) + bytes;
  if (used > limit_bytes_) {
    used_bytes_ -= bytes;
    throw OutOfMemory(text("device memory for ", what),
                      text("need ", human_bytes(used), " (", used, " bytes), the limit is ", human_bytes(limit_bytes_)),
                      "raise --memory-limit, or use --backend cpu");
  }
  void* data = nullptr;
  try {
    check(cudaMalloc(&data, bytes), what);
  } catch (...) {
    used_bytes_ -= bytes;
    throw;
  }
  std::uint64_t peak = peak_bytes_.load();
  while (peak < used && !peak_bytes_.compare_exchange_weak(peak, used)) {
  }
  return data;
}

void DeviceMemory::release(void* data, std::uint64_t bytes) noexcept {
  (void)cudaFree(data);
  used_bytes_ -= bytes;
}

}  // namespace spmm::cuda
