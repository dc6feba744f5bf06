// Owners of CUDA resources. Besides context.*, the only files that allocate device or pinned memory.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/memory/budget.hpp"
#include "base/text.hpp"
#include "cuda/device/context.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/views.hpp"
#include "spmm/device.hpp"

namespace spmm::cuda {

/// Memory of an allocator of the caller's, in the order of `stream`. Errors: OutOfMemory.
inline void* allocate_by(const DeviceAllocator& allocator, std::uint64_t bytes, CUstream_st* stream, const char* what) {
  constexpr std::uint64_t kAlignment = 256;
  if (void* const data = allocator.allocate(bytes, kAlignment, stream)) return data;
  throw OutOfMemory(text("device memory for ", what), text("the allocator has no ", human_bytes(bytes)),
                    "free memory in its pool");
}

/// A stream of the context; it does not synchronise with the default stream.
class Stream {
 public:
  explicit Stream(DeviceContext& context) : context_(context), lent_(context.streams().take()) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Waits until the stream is idle: what is destroyed after it is no longer used by its work.
  ~Stream() {
    settle();
    context_.streams().put(lent_);
  }

  [[nodiscard]] cudaStream_t get() const { return lent_.stream; }
  [[nodiscard]] DeviceContext& context() const { return context_; }
  void synchronize() const { check(cudaStreamSynchronize(get()), "stream"); }
  /// As synchronize(), if an error has been or will be reported by something else.
  void settle() const noexcept { ignore(cudaStreamSynchronize(get())); }
  /// Work that follows waits on the device for what another stream, also a caller's, has now. Threads: one at a time.
  void wait_for(cudaStream_t other) const { wait(get(), other); }
  /// Work that follows on another stream waits for what this one has now. Threads: one at a time.
  void hold(cudaStream_t other) const { wait(other, get()); }

 private:
  void wait(cudaStream_t later, cudaStream_t earlier) const {
    check(cudaEventRecord(lent_.point, earlier), "event");
    check(cudaStreamWaitEvent(later, lent_.point), "event");
  }

  DeviceContext& context_;
  DeviceContext::StreamHandle lent_;
};

/// Waits for a stream when it goes: declared behind the owners of what the stream's work uses.
class SettledAtEnd {
 public:
  explicit SettledAtEnd(const Stream& stream) : stream_(stream) {}
  ~SettledAtEnd() { stream_.settle(); }
  SettledAtEnd(const SettledAtEnd&) = delete;
  SettledAtEnd& operator=(const SettledAtEnd&) = delete;

 private:
  const Stream& stream_;
};

/// Counts what a product allocates on the device and refuses to pass a limit, its own or what its share of the engine's
/// memory can grow to. Threads: any.
/// Stream: memory is allocated and freed in the order of one stream, without waiting: buffers may go while work on
/// that stream still uses them. Another stream waits for a point behind the allocation before it uses a buffer, and the
/// host waits for that stream before the buffer goes.
class DeviceMemory {
 public:
  /// All that it is given must outlive it, the allocator also all memory. Values: callers = where memory comes from if
  /// it serves more than results.
  DeviceMemory(const Stream& stream, std::uint64_t limit_bytes, MemoryShare* share = nullptr,
               const DeviceAllocator* callers = nullptr)
      : stream_(stream),
        limit_bytes_(limit_bytes),
        share_(share),
        callers_(callers != nullptr && callers->serves_workspace ? callers : nullptr) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if (std::byte* const small = std::exchange(small_, nullptr)) release(small, kSmallBytes);
  }

  /// From now on small buffers are cut from one allocation, if there is plenty of memory: each call of the driver takes
  /// the host 3 us. Errors: OutOfMemory.
  void cut_small_buffers() {
    if (free_bytes() >= kPlenty) small_ = static_cast<std::byte*>(allocate(kSmallBytes, "small buffers"));
  }

  /// Errors: OutOfMemory beyond the limit or if the device has no more.
  void* allocate(std::uint64_t bytes, const char* what) {
    if (bytes == 0) return nullptr;
    if (void* const small = cut(bytes)) return small;
    const std::uint64_t used = used_bytes_.fetch_add(bytes) + bytes;
    void* data = nullptr;
    try {
      check_limit(used, what);
      data = callers_ != nullptr ? allocate_by(*callers_, bytes, stream_.get(), what)
                                 : context().allocate(bytes, stream_.get(), what);
    } catch (...) {
      used_bytes_ -= bytes;
      throw;
    }
    std::uint64_t peak = peak_bytes_.load();
    while (peak < used && !peak_bytes_.compare_exchange_weak(peak, used)) {
    }
    return data;
  }

  void release(void* data, std::uint64_t bytes) noexcept {
    const auto* const at = static_cast<const std::byte*>(data);
    if (small_ != nullptr && at >= small_ && at < small_ + kSmallBytes) return;  // goes with all of them
    if (callers_ == nullptr) {
      context().release(data, stream_.get());
    } else {
      callers_->release(data, stream_.get());
    }
    used_bytes_ -= bytes;
  }

  /// Whether work() can allocate all that it needs if no more than most_bytes are held in all. Threads: nothing else
  /// allocates.
  template <class Work>
  bool fits(std::uint64_t most_bytes, const Work& work) {
    const std::uint64_t limit = std::exchange(limit_bytes_, std::min(limit_bytes_, most_bytes));
    bool has_fitted = true;
    try {
      work();
    } catch (const OutOfMemory&) {
      has_fitted = false;
    }
    limit_bytes_ = limit;
    return has_fitted;
  }

  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] DeviceContext& context() const { return stream_.context(); }
  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_bytes_; }
  /// What could be allocated now.
  [[nodiscard]] std::uint64_t free_bytes() const {
    std::uint64_t most = limit_bytes_;
    if (share_ != nullptr) most = std::min(most, share_->reserved().device + share_->free().device);
    return most - std::min<std::uint64_t>(most, used_bytes_);
  }

 private:
  static constexpr std::uint64_t kSmallBytes = 8u << 20;  // all small buffers of S1, and some more
  static constexpr std::uint64_t kMostSmall = 1u << 20;
  static constexpr std::uint64_t kPlenty = 16 * kSmallBytes;
  static constexpr std::uint64_t kSmallAlignment = 256;

  /// Errors: OutOfMemory if that many bytes in all are too many.
  void check_limit(std::uint64_t used_bytes, const char* what) {
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

  /// Null if the buffer is not small, or none is cut any more.
  void* cut(std::uint64_t bytes) noexcept {
    if (small_ == nullptr || bytes > kMostSmall) return nullptr;
    const std::uint64_t room = (bytes + kSmallAlignment - 1) / kSmallAlignment * kSmallAlignment;
    const std::uint64_t at = small_used_.fetch_add(room);
    return at + room <= kSmallBytes ? small_ + at : nullptr;
  }

  const Stream& stream_;
  std::uint64_t limit_bytes_;
  MemoryShare* share_;
  const DeviceAllocator* callers_;
  std::mutex share_mutex_;  // one grows at a time
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
  std::byte* small_ = nullptr;  // [kSmallBytes], what small buffers are cut from
  std::atomic<std::uint64_t> small_used_{0};
};

/// Device array of T; the DeviceMemory must outlive it. Not initialised. One that is borrowed owns nothing.
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
    if (data_ != nullptr && memory_ != nullptr) memory_->release(data_, count_ * sizeof(T));
  }

  /// An array of somebody else's, without owning it.
  static DeviceBuffer borrow(T* data, std::uint64_t count) {
    DeviceBuffer borrowed;
    borrowed.count_ = count;
    borrowed.data_ = data;
    return borrowed;
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

/// Device arrays that go together, not initialised; the DeviceMemory must outlive them.
class DeviceScratch {
 public:
  explicit DeviceScratch(DeviceMemory& memory) : memory_(memory) {}

  /// Null for no elements. Errors: OutOfMemory.
  template <class T>
  T* take(std::uint64_t count, const char* what) {
    return reinterpret_cast<T*>(arrays_.emplace_back(memory_, count * sizeof(T), what).data());
  }
  kernels::Workspace take_work(std::size_t bytes, const char* what) {
    return {.data = take<std::byte>(bytes, what), .bytes = bytes};
  }

 private:
  DeviceMemory& memory_;
  std::vector<DeviceBuffer<std::byte>> arrays_;
};

/// Page-locked memory that the context lends and the device can write. No work may use it when it goes.
template <class T>
class Pinned {
 public:
  explicit Pinned(FreeList<T*>& list) : list_(list), data_(list.take()) {}
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { list_.put(data_); }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] T value() const { return *data_; }

 private:
  FreeList<T*>& list_;
  T* data_;
};
using PinnedTable = Pinned<std::uint32_t>;
using PinnedSlot = Pinned<std::byte>;

/// A point in a stream. Timed events can be compared; untimed ones are cheaper.
class Event {
 public:
  explicit Event(bool timed = false) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming), "event");
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) ignore(cudaEventDestroy(event_));
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

/// An array of its own with the same content. Stream: copied in the order of memory.stream().
template <class T>
DeviceBuffer<T> copy_of(const DeviceBuffer<T>& from, DeviceMemory& memory, const char* what) {
  DeviceBuffer<T> out(memory, from.size(), what);
  copy_async(out.data(), from.data(), from.size(), memory.stream());
  return out;
}

/// Fetches values and waits for them. A kernel writes them to page-locked memory, if they fit it. In a copy to pageable
/// memory the driver would wait for all that the stream has still to do, and calls of other threads for the driver; a
/// copy to page-locked memory would wait for the records that another stream downloads.
template <class T>
void fetch_to(T* to, const T* from, std::uint64_t count, const Stream& stream) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0);
  const std::uint64_t bytes = count * sizeof(T);
  if (bytes > kPinnedTableBytes) {
    copy_async(to, from, count, stream);
    return stream.synchronize();
  }
  const PinnedTable pinned(stream.context().tables());
  const SettledAtEnd settled(stream);  // nothing writes to it when it goes, whatever fails
  kernels::launch_copy_to_host(reinterpret_cast<const std::uint32_t*>(from), static_cast<std::uint32_t>(bytes / 4),
                               pinned.data(), stream.get());
  stream.synchronize();
  std::memcpy(static_cast<void*>(to), pinned.data(), bytes);
}

template <class T>
T fetch(const T* from, const Stream& stream) {
  T value{};
  fetch_to(&value, from, 1, stream);
  return value;
}

template <class T>
std::vector<T> fetch_all(const T* from, std::uint64_t count, const Stream& stream) {
  std::vector<T> values(count);
  fetch_to(values.data(), from, count, stream);
  return values;
}

}  // namespace spmm::cuda
