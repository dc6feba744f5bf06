// Calls of the product that tests replace: the linker (--wrap) puts the functions of this table in front of them.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>

namespace spmm::test {

/// What the wrapped calls do. Threads: replaced only while no other thread reads or writes files.
struct SystemCalls {
  ssize_t (*pread)(int fd, void* to, size_t size, off_t offset);
  ssize_t (*pwrite)(int fd, const void* from, size_t size, off_t offset);
  int (*fallocate)(int fd, int mode, off_t offset, off_t length);
  int (*ftruncate)(int fd, off_t length);
  int (*fsync)(int fd);
  int (*renameat)(int from_folder, const char* from, int to_folder, const char* to);
  int (*renameat2)(int from_folder, const char* from, int to_folder, const char* to, unsigned flags);
};

/// The system's own.
extern const SystemCalls real_calls;
extern SystemCalls system_calls;

/// Gives the system's own back at its end.
struct CallsRestored {
  CallsRestored() = default;
  CallsRestored(const CallsRestored&) = delete;
  CallsRestored& operator=(const CallsRestored&) = delete;
  ~CallsRestored() { system_calls = real_calls; }
};

/// The most blocks that a result holds; lower it to see what happens at the end.
extern std::uint64_t most_output_blocks;
inline constexpr std::uint64_t kMostOutputBlocks = 0xFFFF'FFFFu;

/// The most bytes that all arrays of this process had since the restart, as array_bytes() counts them.
void restart_array_peak();
std::uint64_t peak_array_bytes();

/// Lists of devices are not checked: one GPU plays several.
extern bool may_list_device_twice;

}  // namespace spmm::test
