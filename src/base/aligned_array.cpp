#include "base/aligned_array.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <limits>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kCacheLineBytes = 64;
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kHugePageBytes = 2u << 20;
constexpr std::uint64_t kLargeBytes = 2 * kHugePageBytes;  // from here on on huge pages
constexpr std::uint64_t kMappedBytes = 64u << 10;          // from here on mapped; less comes from the heap

std::atomic<std::uint64_t> bytes_in_use{0};
std::atomic<std::uint64_t> peak_bytes_in_use{0};

void count_bytes(std::uint64_t bytes) {
  const std::uint64_t now = bytes_in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint64_t peak = peak_bytes_in_use.load(std::memory_order_relaxed);
  while (peak < now && !peak_bytes_in_use.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Null where the system has no memory. Shapes: bytes a multiple of kPageBytes.
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

std::byte* try_allocate(std::uint64_t bytes, Pages pages) {
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) return nullptr;  // rounding up cannot overflow
  if (bytes < kMappedBytes) {
    return static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, round_up(bytes, kCacheLineBytes)));
  }
  const std::uint64_t mapped = round_up(bytes, kPageBytes);
  if (pages == Pages::huge_where_large && bytes >= kLargeBytes) return map_on_huge_pages(mapped);
  std::byte* const data = map(mapped);
  if (data != nullptr && pages == Pages::small) static_cast<void>(madvise(data, mapped, MADV_NOHUGEPAGE));
  return data;
}

}  // namespace

std::byte* allocate_bytes(std::uint64_t bytes, Pages pages) {
  std::byte* const data = try_allocate(bytes, pages);
  if (data == nullptr) {
    throw OutOfMemory("host memory", text("an array of ", human_bytes(bytes), " (", bytes, " bytes) was refused"),
                      "set a lower --memory-limit, or run on a machine with more memory");
  }
  count_bytes(bytes);
  return data;
}

void free_bytes(std::byte* data, std::uint64_t bytes) noexcept {
  bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
  if (bytes < kMappedBytes) {
    std::free(data);
  } else {
    munmap(data, round_up(bytes, kPageBytes));
  }
}

ArrayUsage array_usage() {
  return {.bytes = bytes_in_use.load(std::memory_order_relaxed),
          .peak_bytes = peak_bytes_in_use.load(std::memory_order_relaxed)};
}

void restart_array_peak() {
  peak_bytes_in_use.store(bytes_in_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace spmm
