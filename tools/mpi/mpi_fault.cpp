#include "tools/mpi/mpi_fault.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>

#include "io/system_calls.hpp"

namespace spmm::dist {
namespace {

int num_reads = 0;

ssize_t pwrite_without_space(int, const void*, size_t, off_t) {
  errno = ENOSPC;
  return -1;
}

/// Headers and samples of B can be read, what follows cannot: while other ranks wait for it.
constexpr int kGoodReads = 2 + 128;

ssize_t pread_of_broken_disk(int fd, void* to, size_t size, off_t offset) {
  if (++num_reads <= kGoodReads) return ::pread(fd, to, size, offset);
  errno = EIO;
  return -1;
}

}  // namespace

void inject_fault(int rank) {
  const char* const wish = std::getenv("SPMM_MPI_FAULT");
  if (wish == nullptr) return;
  const std::string text = wish;
  if (text == "enospc:" + std::to_string(rank)) io::system_calls.pwrite = pwrite_without_space;
  if (text == "eio:" + std::to_string(rank)) io::system_calls.pread = pread_of_broken_disk;
}

}  // namespace spmm::dist
