// __wrap_X stands in for X everywhere in a test program, __real_X is the system's.
#include "support/wrapped_calls.hpp"

#include <atomic>
#include <vector>

#include "base/memory/aligned_array.hpp"

extern "C" {
ssize_t __real_pread(int fd, void* to, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void* from, size_t size, off_t offset);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __real_ftruncate(int fd, off_t length);
int __real_fsync(int fd);
int __real_renameat(int from_folder, const char* from, int to_folder, const char* to);
int __real_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags);
void __real__ZN4spmm17check_device_listERKSt6vectorIiSaIiEEi(const std::vector<int>& named, int device);
std::byte* __real__ZN4spmm14allocate_bytesEm(std::uint64_t bytes);
}

namespace spmm::test {

constexpr SystemCalls real_calls{.pread = __real_pread,
                                 .pwrite = __real_pwrite,
                                 .fallocate = __real_fallocate,
                                 .ftruncate = __real_ftruncate,
                                 .fsync = __real_fsync,
                                 .renameat = __real_renameat,
                                 .renameat2 = __real_renameat2};
constinit SystemCalls system_calls = real_calls;
constinit std::uint64_t most_output_blocks = kMostOutputBlocks;
constinit bool may_list_device_twice = false;

namespace {
std::atomic<std::uint64_t> peak{0};
}

void restart_array_peak() {
  peak = array_bytes();
}

std::uint64_t peak_array_bytes() {
  return peak;
}

}  // namespace spmm::test

extern "C" {

ssize_t __wrap_pread(int fd, void* to, size_t size, off_t offset) {
  return spmm::test::system_calls.pread(fd, to, size, offset);
}

ssize_t __wrap_pwrite(int fd, const void* from, size_t size, off_t offset) {
  return spmm::test::system_calls.pwrite(fd, from, size, offset);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length) {
  return spmm::test::system_calls.fallocate(fd, mode, offset, length);
}

int __wrap_ftruncate(int fd, off_t length) {
  return spmm::test::system_calls.ftruncate(fd, length);
}

int __wrap_fsync(int fd) {
  return spmm::test::system_calls.fsync(fd);
}

int __wrap_renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return spmm::test::system_calls.renameat(from_folder, from, to_folder, to);
}

int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return spmm::test::system_calls.renameat2(from_folder, from, to_folder, to, flags);
}

// spmm::max_output_blocks()
std::uint64_t __wrap__ZN4spmm17max_output_blocksEv() {
  return spmm::test::most_output_blocks;
}

// spmm::check_device_list(named, device)
void __wrap__ZN4spmm17check_device_listERKSt6vectorIiSaIiEEi(const std::vector<int>& named, int device) {
  if (!spmm::test::may_list_device_twice) __real__ZN4spmm17check_device_listERKSt6vectorIiSaIiEEi(named, device);
}

// spmm::allocate_bytes(bytes)
std::byte* __wrap__ZN4spmm14allocate_bytesEm(std::uint64_t bytes) {
  std::byte* const data = __real__ZN4spmm14allocate_bytesEm(bytes);
  const std::uint64_t now = spmm::array_bytes();
  std::uint64_t most = spmm::test::peak;
  while (most < now && !spmm::test::peak.compare_exchange_weak(most, now)) {
  }
  return data;
}
}
