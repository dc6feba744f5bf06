// Owned file descriptors: closing, locking, reading, writing, and texts for messages.
#include "io/system/descriptor.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace spmm::io {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int try_lock(int fd) {
  return retried([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) == 0 ? 0 : errno;
}

std::size_t read_at(int fd, std::uint64_t offset, std::span<std::byte> dst, int& error) {
  std::size_t done = 0;
  while (done < dst.size()) {
    const auto at = static_cast<off_t>(offset + done);
    const ssize_t got = retried([&] { return ::pread(fd, dst.data() + done, dst.size() - done, at); });
    error = got < 0 ? errno : 0;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::size_t write_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes, int& error) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto at = static_cast<off_t>(offset + done);
    const ssize_t put = retried([&] { return ::pwrite(fd, bytes.data() + done, bytes.size() - done, at); });
    error = put < 0 ? errno : EIO;
    if (put <= 0) break;
    done += static_cast<std::size_t>(put);
  }
  return done;
}

std::string error_text(int error) {
  return std::error_code(error, std::generic_category()).message();
}

std::string descriptor_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

const char* kind_text(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe (FIFO)";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    default:
      return "a special file";
  }
}

}  // namespace spmm::io
