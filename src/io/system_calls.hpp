// The system calls whose failures no test machine gives on demand, in a table that tests may replace.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace spmm::io {

/// Threads: replaced only while no other thread reads or writes files.
struct SystemCalls {
  ssize_t (*pread)(int fd, void* to, size_t size, off_t offset) = ::pread;
  ssize_t (*pwrite)(int fd, const void* from, size_t size, off_t offset) = ::pwrite;
  int (*fallocate)(int fd, int mode, off_t offset, off_t length) = ::fallocate;
  int (*ftruncate)(int fd, off_t length) = ::ftruncate;
  int (*fsync)(int fd) = ::fsync;
  int (*renameat)(int from_folder, const char* from, int to_folder, const char* to) = ::renameat;
  int (*renameat2)(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) = ::renameat2;
};

inline SystemCalls system_calls;

/// Repeats a system call while a signal interrupts it.
template <class Call>
auto retried(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

}  // namespace spmm::io
