#include "cuda/raii.hpp"

#include <limits>

#include "base/text.hpp"

namespace spmm::cuda {

DeviceMemory::DeviceMemory(int device, std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {
  int has_pools = 0;
  check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device), "memory pool");
  pooled_ = has_pools != 0;
  if (!pooled_) return;
  cudaMemPool_t pool = nullptr;
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check(cudaDeviceGetDefaultMemPool(&pool, device), "memory pool");
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
}

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
    if (pooled_) {
      check(cudaMallocAsync(&data, bytes, stream_), what);
      // The default stream belongs to nobody else here: waiting for it waits for the allocation alone.
      if (stream_ == nullptr) check(cudaStreamSynchronize(nullptr), what);
    } else {
      check(cudaMalloc(&data, bytes), what);
    }
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
  (void)(pooled_ ? cudaFreeAsync(data, stream_) : cudaFree(data));
  used_bytes_ -= bytes;
}

}  // namespace spmm::cuda
