#include "mpi/products/mpi_fault.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "support/wrapped_calls.hpp"

namespace spmm::test {
namespace {

std::atomic<int> good_calls = 0;  // that still succeed

bool fails() {
  return good_calls.fetch_sub(1) <= 0;
}

ssize_t pwrite_without_space(int fd, const void* from, size_t size, off_t offset) {
  if (!fails()) return real_calls.pwrite(fd, from, size, offset);
  errno = ENOSPC;
  return -1;
}

ssize_t pwrite_to_broken_disk(int fd, const void* from, size_t size, off_t offset) {
  if (!fails()) return real_calls.pwrite(fd, from, size, offset);
  errno = EIO;
  return -1;
}

ssize_t pread_of_broken_disk(int fd, void* to, size_t size, off_t offset) {
  if (!fails()) return real_calls.pread(fd, to, size, offset);
  errno = EIO;
  return -1;
}

/// The whole process, with all threads, until a test lets it go on.
void stop_at_last_good_call() {
  if (good_calls.fetch_sub(1) == 0) ::kill(::getpid(), SIGSTOP);
}

ssize_t pwrite_that_stops(int fd, const void* from, size_t size, off_t offset) {
  stop_at_last_good_call();
  return real_calls.pwrite(fd, from, size, offset);
}

ssize_t pread_that_stops(int fd, void* to, size_t size, off_t offset) {
  stop_at_last_good_call();
  return real_calls.pread(fd, to, size, offset);
}

int renameat_that_stops(int from_folder, const char* from, int to_folder, const char* to) {
  stop_at_last_good_call();
  return real_calls.renameat(from_folder, from, to_folder, to);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

void inject_fault(int rank) {
  const std::string text = variable("SPMM_MPI_FAULT");
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first + 1);
  if (second == std::string::npos || text.substr(first + 1, second - first - 1) != std::to_string(rank)) return;
  good_calls = std::atoi(text.c_str() + second + 1);
  const std::string kind = text.substr(0, first);
  if (kind == "enospc") system_calls.pwrite = pwrite_without_space;
  if (kind == "write-eio") system_calls.pwrite = pwrite_to_broken_disk;
  if (kind == "blocks") most_output_blocks = static_cast<std::uint64_t>(good_calls);
  if (kind == "stop-write") system_calls.pwrite = pwrite_that_stops;
  if (kind == "stop-read") system_calls.pread = pread_that_stops;
  if (kind == "stop-rename") system_calls.renameat = renameat_that_stops;
  if (kind == "read-eio") system_calls.pread = pread_of_broken_disk;
}

}  // namespace spmm::test
