// Mappings for large arrays: huge pages, pages taken over from freed arrays, and what is in use.
#include "base/memory/aligned_array.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

#include "base/memory/spare_pages.hpp"
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

/// Null if the system has no memory. Shapes: bytes a multiple of page_bytes().
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
  spare_pages().trim(bytes_in_use.load(std::memory_order_relaxed) + more_bytes);
}

/// Whole huge pages, of which those that the array leaves over are spare for arrays to come: small pages at its end
/// would be cleared one by one, which takes several times as long.
std::byte* map_whole_huge_pages(std::uint64_t bytes) {
  const std::uint64_t whole = round_up(bytes, kHugePageBytes);
  make_room(whole);
  std::byte* const data = map_on_huge_pages(whole);
  if (data == nullptr || whole == bytes) return data;
  spare_pages().give(data + bytes, whole - bytes, bytes_in_use.load(std::memory_order_relaxed) + bytes);
  return data;
}

std::byte* try_allocate(std::uint64_t bytes, Pages pages) {
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) return nullptr;  // rounding up cannot overflow
  if (bytes < kMappedBytes) {
    return static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, round_up(bytes, kCacheLineBytes)));
  }
  const std::uint64_t mapped = round_up(bytes, page_bytes());
  if (pages == Pages::huge_where_large) {
    if (std::byte* const data = spare_pages().take(mapped); data != nullptr) return data;
    return map_whole_huge_pages(mapped);
  }
  make_room(mapped);
  std::byte* const data = map(mapped);
  if (data != nullptr) static_cast<void>(madvise(data, mapped, MADV_NOHUGEPAGE));
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
    munmap(data, round_up(bytes, page_bytes()));
  } else {
    spare_pages().give(data, round_up(bytes, page_bytes()), array_bytes());
  }
}

std::uint64_t array_bytes() {
  return bytes_in_use.load(std::memory_order_relaxed);
}

}  // namespace spmm
