// Large uninitialised arrays: the one place where host memory in proportion to the operands comes from. They go back to
// the system when they are freed, which the heap does not promise: glibc keeps what it has once given out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace spmm {

/// How an array is backed.
enum class Pages : std::uint8_t {
  huge_where_large,  ///< arrays of a few huge pages ask for them: fewer page faults, fewer TLB misses on random access
  small,             ///< resident only as far as it was written
};

/// Bytes aligned to a cache line. Errors: OutOfMemory with the size.
std::byte* allocate_bytes(std::uint64_t bytes, Pages pages = Pages::huge_where_large);
/// Values: `bytes` as given to allocate_bytes().
void free_bytes(std::byte* data, std::uint64_t bytes) noexcept;

/// Bytes of all arrays of this process, now and at most since the last restart: what a memory limit is compared with.
struct ArrayUsage {
  std::uint64_t bytes = 0;
  std::uint64_t peak_bytes = 0;
};
ArrayUsage array_usage();
/// The peak starts again from what is in use.
void restart_array_peak();

/// Owner of `size` elements that start out uninitialised.
template <class T>
class AlignedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  AlignedArray() = default;
  /// Values: size * sizeof(T) fits 64 bits. Errors: OutOfMemory.
  explicit AlignedArray(std::uint64_t size, Pages pages = Pages::huge_where_large)
      : data_(size == 0 ? nullptr : reinterpret_cast<T*>(allocate_bytes(size * sizeof(T), pages))),
        size_(size),
        capacity_(size) {}
  AlignedArray(AlignedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  AlignedArray& operator=(AlignedArray&& other) noexcept {
    if (this == &other) return *this;
    free();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  ~AlignedArray() { free(); }

  /// Forgets the elements from `size` on; their memory stays.
  void truncate(std::uint64_t size) { size_ = size < size_ ? size : size_; }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::uint64_t at) const { return data_[at]; }
  [[nodiscard]] T* begin() const { return data_; }
  [[nodiscard]] T* end() const { return data_ + size_; }

 private:
  void free() noexcept {
    if (data_ != nullptr) free_bytes(reinterpret_cast<std::byte*>(data_), capacity_ * sizeof(T));
  }

  T* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t capacity_ = 0;
};

}  // namespace spmm
