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

/// Whole huge pages, or null if the system has no memory. What the array leaves of them is spare for arrays to come:
/// small pages at its end would be cleared one by one, which takes several times as long.
/// Shapes: bytes a multiple of page_bytes().
std::byte* map_huge_pages(std::uint64_t bytes) {
  const std::uint64_t whole = round_up(bytes, kHugePageBytes);
  spare_pages().trim(array_bytes() + whole);  // with fresh pages, arrays and everything spare keep what is allowed
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
  if (whole != bytes) spare_pages().give(data + bytes, whole - bytes, array_bytes() + bytes);
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
  std::byte* const data = try_allocate(bytes);
  if (data == nullptr) {
    throw OutOfMemory("host memory",
                      text("an array of ", human_bytes(bytes), " (", bytes, " bytes) could not be allocated"),
                      "set a lower EngineOptions::memory_limit_bytes, or run on a machine with more memory");
  }
  bytes_in_use.fetch_add(bytes, std::memory_order_relaxed);
  return data;
}

void free_bytes(std::byte* data, std::uint64_t bytes) noexcept {
  bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
  if (bytes < kMappedBytes) {
    std::free(data);
  } else {
    spare_pages().give(data, round_up(bytes, page_bytes()), array_bytes());
  }
}

std::uint64_t array_bytes() {
  return bytes_in_use.load(std::memory_order_relaxed);
}

}  // namespace spmm
