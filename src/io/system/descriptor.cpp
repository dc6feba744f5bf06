// Owned file descriptors: closing, locking, and texts for messages.
#include "io/system/descriptor.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/text.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
namespace {

int lock_now(int fd, int operation) {
  return retried([&] { return ::flock(fd, operation); }) == 0 ? 0 : errno;
}

/// Whether the file lies on a file system of this machine. False if that is not known.
bool is_local(int fd) {
  constexpr long kXfsMagic = 0x58465342;  // in <linux/magic.h> of newer kernels only
  struct statfs info {};
  if (retried([&] { return ::fstatfs(fd, &info); }) != 0) return false;
  const long type = static_cast<long>(info.f_type);
  return type == EXT4_SUPER_MAGIC || type == kXfsMagic || type == TMPFS_MAGIC || type == BTRFS_SUPER_MAGIC ||
         type == OVERLAYFS_SUPER_MAGIC;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int lock_within(int fd, int operation, std::chrono::milliseconds patience) {
  if ((operation & LOCK_NB) != 0 && is_local(fd)) return lock_now(fd, operation);
  struct Request {
    std::mutex mutex;
    std::condition_variable answered;
    std::optional<int> error;
    Descriptor file;  // its own: the caller may close the other one while the call still waits
  };
  const auto request = std::make_shared<Request>();
  request->file = Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!request->file.is_open()) return lock_now(fd, operation);
  try {
    std::thread([request, operation] {
      const int error = lock_now(request->file.get(), operation);
      const std::lock_guard lock(request->mutex);
      request->error = error;
      request->answered.notify_one();
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had
    return lock_now(fd, operation);
  }
  std::unique_lock lock(request->mutex);
  request->answered.wait_for(lock, patience, [&] { return request->error.has_value(); });
  return request->error.value_or(ETIMEDOUT);
}

void throw_no_lock(const std::string& output) {
  throw OutputError(output,
                    text("the file system did not answer a request for a lock in ", kLockPatience.count(), " s"),
                    "check the lock service of the file server, or choose another output path");
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
