// What outlives a product on one device: its context, a memory pool, and pinned slots and streams that are lent.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace spmm::cuda {

/// For calls whose errors nothing depends on, or something else reports: clears one, so that no later check of the
/// thread takes it for its own.
inline void ignore(cudaError_t status) noexcept {
  if (status != cudaSuccess) (void)cudaGetLastError();
}

/// Makes a device current on this thread; afterwards what was current before is so again: the caller's device, or none.
/// The runtime's own choice of device for the thread is not touched. Cost: two calls of the driver once the device has
/// been started, which takes 0.2 s in the first guard of a process.
class DeviceGuard {
 public:
  /// Errors: CudaError, DeviceError (a driver older than the runtime).
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
};

class DeviceContext;

/// Device memory that one call has allocated.
struct Allocation {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] bool holds(std::uintptr_t address) const { return address - begin < bytes; }
};

/// The allocation that holds an address; the address alone if the driver does not tell. The device must be current.
Allocation allocation_of(const void* data);

/// In a catch block: throws the current exception again, with the device's number and name in its text if it is one
/// that a device makes: CudaError, DeviceError, OutOfMemory.
[[noreturn]] void rethrow_naming(const DeviceContext& context);

/// Pairs before each of 2^14 runs of rows, and a few words more.
inline constexpr std::size_t kPinnedTableBytes = (8u << 14) + 256;

/// Handles that are lent and come back. Threads: any.
template <class Handle>
class FreeList {
 public:
  explicit FreeList(std::function<Handle()> make) : make_(std::move(make)) {}

  /// One that came back, else a new one. Errors: what make() throws, std::bad_alloc.
  Handle take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const Handle handle = free_.back();
        free_.pop_back();
        return handle;
      }
      free_.reserve(num_made_ + 1);  // put() must not allocate
      ++num_made_;
    }
    return make_();
  }

  void put(Handle handle) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(handle);
  }

  /// Calls destroy(handle) for all that are back.
  template <class Destroy>
  void clear(const Destroy& destroy) {
    const std::lock_guard lock(mutex_);
    for (const Handle handle : free_) destroy(handle);
    free_.clear();
  }

 private:
  std::function<Handle()> make_;
  std::mutex mutex_;
  std::vector<Handle> free_;
  std::size_t num_made_ = 0;
};

/// One device in the hands of one engine. Everything is done on streams of its own: the legacy default stream is
/// neither used nor waited for, and nothing waits for the device as a whole while a product runs.
/// Threads: any; the device must be current (DeviceGuard).
class DeviceContext : public std::enable_shared_from_this<DeviceContext> {
 public:
  /// Starts the device. Errors: CudaError, DeviceError.
  explicit DeviceContext(int device);
  /// Nothing may be lent. Gives all memory back to the device.
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }
  /// Multiprocessors times their clock, and the bandwidth of memory, over those of the device that src/plan/times.cpp
  /// was measured on.
  [[nodiscard]] double arithmetic() const { return arithmetic_; }
  [[nodiscard]] double memory_speed() const { return memory_speed_; }

  /// What all products on this context may take together: free memory of the device, and what the pool holds, used or
  /// kept for the next product.
  [[nodiscard]] std::uint64_t memory_bytes() const;

  /// Memory of the pool in the order of `stream`. Errors: OutOfMemory if the device has no more.
  void* allocate(std::uint64_t bytes, cudaStream_t stream, const char* what);
  /// Stream: waits for nothing; other streams must be done with the memory, or `stream` must wait for them.
  void release(void* data, cudaStream_t stream) noexcept;

  /// Gives memory back to the device that the pool keeps and nothing uses.
  void trim() noexcept;

  /// A stream that does not synchronise with the default stream, and an event for points that streams wait for; idle
  /// when it comes back.
  struct StreamHandle {
    cudaStream_t stream = nullptr;
    cudaEvent_t point = nullptr;
  };
  FreeList<StreamHandle>& streams() { return streams_; }

  /// Page-locked memory of kernels::kRingSlotBytes, for every device; no work on the device may use it when it comes
  /// back.
  FreeList<std::byte*>& slots() { return slots_; }
  /// Page-locked memory of kPinnedTableBytes; as a slot.
  FreeList<std::uint32_t*>& tables() { return tables_; }

 private:
  /// Page-locked memory that goes with the context.
  std::byte* pin(std::uint64_t bytes);

  int device_;
  cudaDeviceProp properties_{};
  double arithmetic_ = 1;
  double memory_speed_ = 1;
  cudaMemPool_t pool_ = nullptr;
  FreeList<StreamHandle> streams_;
  FreeList<std::byte*> slots_;
  FreeList<std::uint32_t*> tables_;
  std::mutex pages_mutex_;
  std::vector<void*> pages_;  // all that is page-locked
};

/// Runs body() with the device current. Values: names = whether errors name the device; as rethrow_naming().
template <class Body>
void on_device(const DeviceContext& context, bool names, const Body& body) {
  const DeviceGuard guard(context.device());
  if (!names) return body();
  try {
    body();
  } catch (...) {
    rethrow_naming(context);
  }
}

/// Destroys with the device current.
template <class T>
struct DeleteOnDevice {
  int device = 0;
  void operator()(T* held) const noexcept {
    try {
      const DeviceGuard guard(device);
      delete held;
    } catch (...) {  // no device to give anything back to
    }
  }
};
template <class T>
using OnDevice = std::unique_ptr<T, DeleteOnDevice<T>>;

}  // namespace spmm::cuda
