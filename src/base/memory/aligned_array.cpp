// Mappings for large arrays: huge pages, pages taken over from freed arrays, and what is in use.
#include "base/memory/aligned_array.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "base/memory/spare_pages.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kCacheLineBytes = 64;
constexpr std::uint64_t kHugePageBytes = 2u << 20;
constexpr std::uint64_t kLargeBytes = kHugePageBytes;  // from here on on huge pages
constexpr std::uint64_t kMappedBytes = 64u << 10;      // from here on mapped; less comes from the heap

std::atomic<std::uint64_t> bytes_in_use{0};

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// A few mappings that were given back, for arrays of the same size: a product out of core, or many small products, ask
/// for the same sizes again and again, and fresh pages have to be cleared by the system first (576 products of slabs:
/// 3.1 s in the system, with the first version of this file 0.6).
/// Larger ones: spare_pages.hpp. Memory: kMaxBytes; while a product runs, no more than it leaves of what is allowed.
class SpareMappings {
 public:
  static constexpr std::uint64_t kMaxBytes = 12u << 20;

  /// Whether mappings of this size are kept here.
  static constexpr bool takes(std::uint64_t bytes) { return bytes <= kMaxBytes / 2; }

  /// Null if there is none of this size.
  std::byte* take(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    for (std::size_t x = size_; x-- > 0;) {
      if (spare_[x].bytes != bytes) continue;
      std::byte* const data = spare_[x].data;
      remove(x);
      return data;
    }
    return nullptr;
  }

  /// Unmaps it, or the oldest ones, if there would be too many.
  void give(std::byte* data, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (size_ == spare_.size()) unmap_oldest();
    spare_[size_++] = {.data = data, .bytes = bytes};
    bytes_ += bytes;
    unmap_beyond(kMaxBytes);
  }

  /// Unmaps the oldest ones until no more than that is left.
  void trim(std::uint64_t most_bytes) {
    const std::lock_guard lock(mutex_);
    unmap_beyond(most_bytes);
  }

  [[nodiscard]] std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Mapping {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };

  void unmap_oldest() {
    munmap(spare_[0].data, spare_[0].bytes);
    remove(0);
  }

  void unmap_beyond(std::uint64_t most_bytes) {
    while (bytes_ > most_bytes) unmap_oldest();
  }

  void remove(std::size_t x) {
    bytes_ -= spare_[x].bytes;
    std::copy(spare_.begin() + x + 1, spare_.begin() + size_, spare_.begin() + x);
    --size_;
  }

  mutable std::mutex mutex_;
  std::array<Mapping, 32> spare_;  // [size_] oldest first
  std::size_t size_ = 0;
  std::uint64_t bytes_ = 0;
};

SpareMappings& spare_mappings() {
  static SpareMappings mappings;
  return mappings;
}

/// Bytes of the mapping for an array: small ones are rounded up to one of 16 sizes between powers of two, so that
/// arrays of about the same size use the same mappings.
std::uint64_t mapped_bytes(std::uint64_t bytes) {
  if (!SpareMappings::takes(bytes)) return round_up(bytes, page_bytes());
  return round_up(bytes, std::max(page_bytes(), std::bit_floor(bytes) / 16));
}

/// Null where the system has no memory. Shapes: bytes a multiple of page_bytes().
std::byte* map(std::uint64_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

/// The same, beginning on a huge page.
std::byte* map_on_huge_pages(std::uint64_t bytes) {
  std::byte* const begin = map(bytes + kHugePageBytes);
  if (begin == nullptr) return nullptr;
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uint64_t before = round_up(address, kHugePageBytes) - address;
  if (before != 0) munmap(begin, before);
  if (before != kHugePageBytes) munmap(begin + before + bytes, kHugePageBytes - before);
  static_cast<void>(madvise(begin + before, bytes, MADV_HUGEPAGE));  // only advice: without them everything still works
  return begin + before;
}

/// Before fresh pages are mapped: with them, arrays and everything spare keep what is allowed.
void make_room(std::uint64_t more_bytes) {
  const std::uint64_t in_use = bytes_in_use.load(std::memory_order_relaxed) + more_bytes;
  spare_pages().trim(in_use + spare_mappings().bytes());
  spare_mappings().trim(spare_pages().room_left(in_use));
}

std::byte* try_allocate(std::uint64_t bytes, Pages pages) {
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) return nullptr;  // rounding up cannot overflow
  if (bytes < kMappedBytes) {
    return static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, round_up(bytes, kCacheLineBytes)));
  }
  const std::uint64_t mapped = mapped_bytes(bytes);
  if (pages == Pages::huge_where_large) {
    const bool is_small = SpareMappings::takes(bytes);
    std::byte* const data = is_small ? spare_mappings().take(mapped) : spare_pages().take(mapped);
    if (data != nullptr) return data;
  }
  make_room(mapped);
  if (pages == Pages::huge_where_large && bytes >= kLargeBytes) return map_on_huge_pages(mapped);
  std::byte* const data = map(mapped);
  if (data != nullptr && pages == Pages::small) static_cast<void>(madvise(data, mapped, MADV_NOHUGEPAGE));
  return data;
}

}  // namespace

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* allocate_bytes(std::uint64_t bytes, Pages pages) {
  std::byte* const data = try_allocate(bytes, pages);
  if (data == nullptr) {
    throw OutOfMemory("host memory",
                      text("an array of ", human_bytes(bytes), " (", bytes, " bytes) could not be allocated"),
                      "set a lower EngineOptions::memory_limit_bytes, or run on a machine with more memory");
  }
  bytes_in_use.fetch_add(bytes, std::memory_order_relaxed);
  return data;
}

void free_bytes(std::byte* data, std::uint64_t bytes, Pages pages) noexcept {
  bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
  if (bytes < kMappedBytes) {
    std::free(data);
  } else if (pages == Pages::small) {
    munmap(data, mapped_bytes(bytes));
  } else if (SpareMappings::takes(bytes)) {
    spare_mappings().give(data, mapped_bytes(bytes));
  } else {
    const std::uint64_t in_use = bytes_in_use.load(std::memory_order_relaxed) + spare_mappings().bytes();
    spare_pages().give(data, mapped_bytes(bytes), in_use);
  }
}

std::uint64_t array_bytes() {
  return bytes_in_use.load(std::memory_order_relaxed);
}

}  // namespace spmm
