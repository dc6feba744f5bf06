// Large uninitialised arrays: the one place where host memory in proportion to the operands comes from. Pages of freed
// arrays go back to the system, which the heap does not promise, or are kept for arrays to come: fresh ones have to be
// cleared by the system first, which takes longer than most of what is done with them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

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
/// Bytes of pages that are kept for arrays to come. With array_bytes() never more than the sum of all SpareAllowances;
/// kKeptBytes where there is none, for many small products, one after the other.
std::uint64_t spare_bytes();
inline constexpr std::uint64_t kKeptBytes = 12u << 20;

/// A part of what all arrays and spare pages may take together. Threads: one at a time.
class SpareAllowance {
 public:
  SpareAllowance() = default;
  ~SpareAllowance() { set(0); }
  SpareAllowance(const SpareAllowance&) = delete;
  SpareAllowance& operator=(const SpareAllowance&) = delete;

  void set(std::uint64_t bytes) noexcept;

 private:
  std::uint64_t bytes_ = 0;
};

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

/// Room for `most` elements of a result in memory. Pages are taken as they are filled, so that a bound may be several
/// times too high; huge ones, of which few are cleared one by one.
template <class T>
void reserve_pages(std::vector<T>& array, std::uint64_t most) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
  constexpr std::uint64_t kLargeBytes = 4u << 20;
  const std::uint64_t bytes = most * sizeof(T);
  if (most <= array.capacity() || bytes > kMostBytes) return;
  try {
    array.reserve(most);
  } catch (const std::bad_alloc&) {
    return;  // it grows instead
  }
  if (bytes < kLargeBytes) return;
  const std::uint64_t page = page_bytes();
  const std::uint64_t begin = (reinterpret_cast<std::uintptr_t>(array.data()) + page - 1) / page * page;
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), bytes - page, MADV_HUGEPAGE));  // only advice
}

}  // namespace spmm
