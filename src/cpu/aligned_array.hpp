// Large uninitialised arrays on cache lines, and on huge pages where they are worth it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace spmm::cpu {

/// Bytes aligned to a cache line; arrays of a few huge pages ask the system for huge pages (fewer page faults, fewer
/// TLB misses on random access). Errors: OutOfMemory with the size.
std::byte* allocate_bytes(std::uint64_t bytes);
void free_bytes(std::byte* bytes) noexcept;

/// Owner of `size` elements that start out uninitialised.
template <class T>
class AlignedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  AlignedArray() = default;
  explicit AlignedArray(std::uint64_t size)
      : data_(size == 0 ? nullptr : reinterpret_cast<T*>(allocate_bytes(size * sizeof(T)))), size_(size) {}

  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::uint64_t at) const { return data_.get()[at]; }
  [[nodiscard]] T* begin() const { return data(); }
  [[nodiscard]] T* end() const { return data() + size_; }

 private:
  struct Free {
    void operator()(T* data) const noexcept { free_bytes(reinterpret_cast<std::byte*>(data)); }
  };
  std::unique_ptr<T, Free> data_;
  std::uint64_t size_ = 0;
};

}  // namespace spmm::cpu
