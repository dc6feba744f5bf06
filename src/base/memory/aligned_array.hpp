// Large uninitialised arrays: the one place where host memory in proportion to the operands comes from. They go back to
// the system when they are freed, or to spare_pages.hpp, which the heap does not promise: glibc keeps what it has once
// given out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace spmm {

/// Bytes aligned to a cache line; large arrays ask for huge pages: fewer page faults and TLB misses.
/// Errors: OutOfMemory with the size.
std::byte* allocate_bytes(std::uint64_t bytes);
/// Values: `bytes` as given to allocate_bytes().
void free_bytes(std::byte* data, std::uint64_t bytes) noexcept;

/// Of a page of this machine's memory: 4096, on 64-bit ARM up to 65536.
std::uint64_t page_bytes();

/// Bytes of all arrays of this process.
std::uint64_t array_bytes();

/// Owner of `size` elements that start out uninitialised.
template <class T>
class AlignedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  AlignedArray() = default;
  /// Values: size * sizeof(T) fits 64 bits. Errors: OutOfMemory.
  explicit AlignedArray(std::uint64_t size)
      : data_(size == 0 ? nullptr : reinterpret_cast<T*>(allocate_bytes(size * sizeof(T))),
              Free{.bytes = size * sizeof(T)}),
        size_(size) {}
  AlignedArray(AlignedArray&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedArray& operator=(AlignedArray&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  /// Forgets the elements from `size` on; their memory stays.
  void truncate(std::uint64_t size) { size_ = size < size_ ? size : size_; }

  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::uint64_t at) const { return data_.get()[at]; }
  [[nodiscard]] T* begin() const { return data(); }
  [[nodiscard]] T* end() const { return data() + size_; }

 private:
  struct Free {
    std::uint64_t bytes = 0;
    void operator()(T* data) const noexcept { free_bytes(reinterpret_cast<std::byte*>(data), bytes); }
  };

  std::unique_ptr<T, Free> data_;
  std::uint64_t size_ = 0;
};

}  // namespace spmm
