// Owners of CUDA resources. The only file that allocates device or pinned memory.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/check.hpp"

namespace spmm::cuda {

/// Counts what a run allocates on the device and refuses to pass a limit. Threads: any.
class DeviceMemory {
 public:
  /// Allocations come from the device's pool, where it has one, which keeps freed memory for the next one.
  DeviceMemory(int device, std::uint64_t limit_bytes);

  /// From now on memory is taken and given back in the order of this stream, without waiting: buffers may go while work
  /// on the stream still uses them, and belong to this stream alone until it is waited for.
  void order_by(cudaStream_t stream) { stream_ = stream; }

  /// Errors: OutOfMemory beyond the limit or where the device has no more.
  void* allocate(std::uint64_t bytes, const char* what);
  /// Stream: waits for nothing; work that uses the memory must be done, or be on the stream of order_by.
  void release(void* data, std::uint64_t bytes) noexcept;

  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_bytes_; }
  /// What the limit leaves.
  [[nodiscard]] std::uint64_t free_bytes() const { return limit_bytes_ - used_bytes_; }

 private:
  std::uint64_t limit_bytes_;
  bool pooled_ = false;
  cudaStream_t stream_ = nullptr;
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
};

/// Device array of T; the DeviceMemory must outlive it. Not initialised.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceMemory& memory, std::uint64_t count, const char* what)
      : memory_(&memory), count_(count), data_(static_cast<T*>(memory.allocate(count * sizeof(T), what))) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer old(std::move(*this));
    swap(other);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) memory_->release(data_, count_ * sizeof(T));
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return count_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(count_, other.count_);
    std::swap(data_, other.data_);
  }

  DeviceMemory* memory_ = nullptr;
  std::uint64_t count_ = 0;
  T* data_ = nullptr;
};

/// Page-locked host array of T that the device can reach.
template <class T>
class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::uint64_t count) : count_(count) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&data_), count * sizeof(T), cudaHostAllocDefault), "pinned buffer");
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : count_(std::exchange(other.count_, 0)), data_(std::exchange(other.data_, nullptr)) {}
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  ~PinnedBuffer() {
    if (data_ != nullptr) (void)cudaFreeHost(data_);
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return count_; }
  T& operator[](std::uint64_t x) const { return data_[x]; }

 private:
  std::uint64_t count_ = 0;
  T* data_ = nullptr;
};

/// A stream that does not synchronise with the default stream.
class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(stream_); }

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "stream"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream. Timed events can be compared; untimed ones are cheaper.
class Event {
 public:
  explicit Event(bool timed = false) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming), "event");
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }

  [[nodiscard]] cudaEvent_t get() const { return event_; }
  void record(const Stream& stream) const { check(cudaEventRecord(event_, stream.get()), "event"); }
  /// Waits on the host until the point is reached; at once if it was never recorded.
  void synchronize() const { check(cudaEventSynchronize(event_), "event"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Copies on a stream; the host side should be pinned. Shapes: count elements of T.
template <class T>
void copy_async(T* to, const T* from, std::uint64_t count, const Stream& stream) {
  if (count == 0) return;
  check(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDefault, stream.get()), "copy");
}

/// Fetches one value and waits for it.
template <class T>
T fetch(const T* from, const Stream& stream) {
  T value{};
  copy_async(&value, from, 1, stream);
  stream.synchronize();
  return value;
}

}  // namespace spmm::cuda
