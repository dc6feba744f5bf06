// A file written through shared mappings of space that is reserved already.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

namespace spmm::io {

/// Whether copying into mapped pages of files on this file system is safe and worth it: ext4, xfs and tmpfs. Elsewhere
/// reserved space may still run out at the first write of a page (copy on write), which would be a SIGBUS.
bool may_map_files_of(int fd);

/// Reserved ranges of a file, mapped until write() has filled them; the first one, whose header comes last and by
/// pwrite, until unmap_all(). Memory: the pages are the page cache's; they count as resident while their range is
/// mapped. Threads: write() may be called from several threads at once and at the same time as add().
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { unmap_all(); }

  /// Maps [begin, end), whose blocks must be reserved; ranges follow each other. False if the system refuses: what
  /// is not mapped is written as if it had never been added. Values: begin and end are multiples of kRangeBytes.
  bool add(int fd, std::uint64_t begin, std::uint64_t end) noexcept;

  /// Copies the leading part of `bytes` that lies in one mapped range; returns how much that is, 0 where the first byte
  /// is in none. Each byte of the file may be written once.
  std::size_t write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

  /// No write() may be in progress.
  void unmap_all() noexcept;

  /// Size of a mapping. Source: 4 GiB on ext4, 16 cores: one mapping with huge pages 13 to 15 GB/s with 8 to 16
  /// threads; without huge pages 1.7 to 7.5 by step; pwrite 3.5 to 5.1.
  static constexpr std::uint64_t kRangeBytes = 64u << 20;

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::byte* data = nullptr;
    std::atomic<std::uint64_t> missing_bytes{0};
  };
  Range* find(std::uint64_t offset);

  std::mutex mutex_;
  std::deque<Range> ranges_;  // ascending; entries stay where they are
};

}  // namespace spmm::io
