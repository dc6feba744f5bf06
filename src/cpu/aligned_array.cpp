#include "cpu/aligned_array.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <limits>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kCacheLineBytes = 64;
constexpr std::uint64_t kHugePageBytes = 2u << 20;

}  // namespace

std::byte* allocate_bytes(std::uint64_t bytes) {
  const std::uint64_t alignment = bytes >= 2 * kHugePageBytes ? kHugePageBytes : kCacheLineBytes;
  void* data = nullptr;
  if (bytes <= std::numeric_limits<std::uint64_t>::max() - alignment) {
    data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  if (data == nullptr) {
    throw OutOfMemory("host memory", text("an array of ", human_bytes(bytes), " (", bytes, " bytes) was refused"),
                      "set a lower --memory-limit, or run on a machine with more memory");
  }
  // Only advice: without huge pages everything still works.
  if (alignment == kHugePageBytes) static_cast<void>(madvise(data, bytes, MADV_HUGEPAGE));
  return static_cast<std::byte*>(data);
}

void free_bytes(std::byte* bytes) noexcept {
  std::free(bytes);
}

}  // namespace spmm::cpu
