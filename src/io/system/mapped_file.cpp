// Bytes copied into shared mappings of a file.
#include "io/system/mapped_file.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "io/system/descriptor.hpp"

namespace spmm::io {

bool may_map_files_of(int fd) {
  constexpr long kXfsMagic = 0x58465342;  // in <linux/magic.h> of newer kernels only
  struct statfs info {};
  if (retried([&] { return ::fstatfs(fd, &info); }) != 0) return false;
  const long type = static_cast<long>(info.f_type);
  return type == EXT4_SUPER_MAGIC || type == kXfsMagic || type == TMPFS_MAGIC;
}

bool MappedFile::add(int fd, std::uint64_t begin, std::uint64_t end) noexcept {
  for (std::uint64_t at = begin; at < end; at += kRangeBytes) {
    void* const data = ::mmap(nullptr, kRangeBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(at));
    if (data == MAP_FAILED) return false;
    // Advice: whole huge pages of page cache are taken at a fault, instead of 4 KB; everything works without.
    static_cast<void>(::madvise(data, kRangeBytes, MADV_HUGEPAGE));
    const std::lock_guard lock(mutex_);
    try {
      Range& range = ranges_.emplace_back();
      range.begin = at;
      range.data = static_cast<std::byte*>(data);
      range.missing_bytes = kRangeBytes;
    } catch (const std::bad_alloc&) {
      ::munmap(data, kRangeBytes);
      return false;
    }
  }
  return true;
}

MappedFile::Range* MappedFile::find(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                       [](std::uint64_t at, const Range& range) { return at < range.begin; });
  if (behind == ranges_.begin()) return nullptr;
  Range& range = *std::prev(behind);
  return offset - range.begin < kRangeBytes && range.data != nullptr ? &range : nullptr;
}

std::size_t MappedFile::write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  Range* const range = find(offset);  // stays mapped: the bytes of this call are among the missing ones
  if (range == nullptr) return 0;
  const std::uint64_t at = offset - range->begin;
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), kRangeBytes - at));
  std::memcpy(range->data + at, bytes.data(), count);
  if (range->missing_bytes.fetch_sub(count) == count) {  // full: no other thread writes there
    std::byte* data = nullptr;
    {
      const std::lock_guard lock(mutex_);
      data = std::exchange(range->data, nullptr);
    }
    ::munmap(data, kRangeBytes);
  }
  return count;
}

void MappedFile::unmap_all() noexcept {
  for (Range& range : ranges_) {
    if (range.data != nullptr) ::munmap(std::exchange(range.data, nullptr), kRangeBytes);
  }
  ranges_.clear();
}

}  // namespace spmm::io
