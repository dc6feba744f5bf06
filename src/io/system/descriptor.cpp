#include "io/system/descriptor.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

namespace spmm::io {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
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
