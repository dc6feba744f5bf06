// Mappings for large arrays: huge pages, pages taken over from freed arrays, and what is in use.
#include "base/memory/aligned_array.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kCacheLineBytes = 64;
constexpr std::uint64_t kHugePageBytes = 2u << 20;
constexpr std::uint64_t kMappedBytes = 64u << 10;  // from here on mapped, on huge pages; less comes from the heap

std::atomic<std::uint64_t> bytes_in_use{0};

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Mapped memory that no array uses, in ranges that are cut and joined as needed. Threads: any.
class SparePages {
 public:
  /// The smallest range that is large enough, cut to size; null if there is none.
  std::byte* take(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = ranges_.end();
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
      if (range->second >= bytes && (best == ranges_.end() || range->second < best->second)) best = range;
    }
    if (best == ranges_.end()) return nullptr;
    auto range = ranges_.extract(best);
    std::byte* const data = range.key();
    range.key() += bytes;
    range.mapped() -= bytes;
    bytes_ -= bytes;
    if (range.mapped() != 0) ranges_.insert(std::move(range));
    return data;
  }

  /// Keeps a range, or unmaps it where that would be too much, or memory ends.
  void give(std::byte* data, std::uint64_t bytes) noexcept try {
    const std::lock_guard lock(mutex_);
    if (bytes_ + bytes > room(0)) {
      munmap(data, bytes);
      return;
    }
    const auto range = ranges_.emplace(data, bytes).first;
    bytes_ += bytes;
    const auto join = [&](auto left, auto right) {
      if (left->first + left->second != right->first) return;
      left->second += right->second;
      ranges_.erase(right);
    };
    if (std::next(range) != ranges_.end()) join(range, std::next(range));
    if (range != ranges_.begin()) join(std::prev(range), range);
  } catch (const std::bad_alloc&) {
    munmap(data, bytes);
  }

  /// Unmaps until there is room for `bytes` in addition to the arrays in use.
  void trim(std::uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    while (bytes_ > room(bytes)) {
      // What is too much goes from the end of the last range.
      const auto last = std::prev(ranges_.end());
      const std::uint64_t cut = std::min(last->second, round_up(bytes_ - room(bytes), page_bytes()));
      munmap(last->first + last->second - cut, cut);
      last->second -= cut;
      bytes_ -= cut;
      if (last->second == 0) ranges_.erase(last);
    }
  }

  /// Changes what is allowed.
  void allow(std::uint64_t more_bytes, std::uint64_t less_bytes) noexcept {
    const std::lock_guard lock(mutex_);
    allowed_bytes_ += more_bytes;
    allowed_bytes_ -= less_bytes;
  }

  [[nodiscard]] std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  /// Most bytes of spare pages beside the arrays in use and `bytes`.
  [[nodiscard]] std::uint64_t room(std::uint64_t bytes) const {
    return allowed_bytes_ == 0 ? kKeptBytes : allowed_bytes_ - std::min(allowed_bytes_, array_bytes() + bytes);
  }

  mutable std::mutex mutex_;
  std::map<std::byte*, std::uint64_t> ranges_;  // by address, none touches the next
  std::uint64_t bytes_ = 0;
  std::uint64_t allowed_bytes_ = 0;
};

SparePages& spare_pages() {
  static SparePages* const pages = new SparePages;  // never destroyed: arrays may be freed while the process ends
  return *pages;
}

/// Whole huge pages, or null if the system has no memory. What the array leaves of them is spare for arrays to come:
/// small pages at its end would be cleared one by one, which takes several times as long.
/// Shapes: bytes a multiple of page_bytes(); they count as in use already.
std::byte* map_huge_pages(std::uint64_t bytes) {
  const std::uint64_t whole = round_up(bytes, kHugePageBytes);
  spare_pages().trim(whole - bytes);  // with fresh pages, arrays and everything spare keep what is allowed
  void* const mapped =
      mmap(nullptr, whole + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uint64_t before = round_up(address, kHugePageBytes) - address;
  if (before != 0) munmap(begin, before);
  if (before != kHugePageBytes) munmap(begin + before + whole, kHugePageBytes - before);
  std::byte* const data = begin + before;
  static_cast<void>(madvise(data, whole, MADV_HUGEPAGE));  // only advice: without them everything still works
  if (whole != bytes) spare_pages().give(data + bytes, whole - bytes);
  return data;
}

std::byte* try_allocate(std::uint64_t bytes) {
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) return nullptr;  // rounding up cannot overflow
  if (bytes < kMappedBytes) {
    return static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, round_up(bytes, kCacheLineBytes)));
  }
  const std::uint64_t mapped = round_up(bytes, page_bytes());
  std::byte* const data = spare_pages().take(mapped);
  return data != nullptr ? data : map_huge_pages(mapped);
}

}  // namespace

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* allocate_bytes(std::uint64_t bytes) {
  bytes_in_use.fetch_add(bytes, std::memory_order_relaxed);
  std::byte* const data = try_allocate(bytes);
  if (data != nullptr) return data;
  bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
  throw OutOfMemory("host memory",
                    text("an array of ", human_bytes(bytes), " (", bytes, " bytes) could not be allocated"),
                    "set a lower EngineOptions::memory_limit_bytes, or run on a machine with more memory");
}

void free_bytes(std::byte* data, std::uint64_t bytes) noexcept {
  bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
  if (bytes < kMappedBytes) {
    std::free(data);
  } else {
    spare_pages().give(data, round_up(bytes, page_bytes()));
  }
}

std::uint64_t array_bytes() {
  return bytes_in_use.load(std::memory_order_relaxed);
}

std::uint64_t spare_bytes() {
  return spare_pages().bytes();
}

void SpareAllowance::set(std::uint64_t bytes) noexcept {
  if (bytes == bytes_) return;
  spare_pages().allow(bytes, bytes_);
  bytes_ = bytes;
  spare_pages().trim(0);
}

}  // namespace spmm
