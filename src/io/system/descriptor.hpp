// An owned file descriptor, its lock, and what the errors of system calls mean to the user.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace spmm::io {

/// Owns a file descriptor; closes it when destroyed.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const { return fd_; }
  /// Gives up the descriptor, which the caller closes.
  int disown() { return std::exchange(fd_, -1); }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// How long a file server may take to answer: more than the 90 s after its start in which an NFS server gives no locks.
inline constexpr std::chrono::seconds kLockPatience{120};

/// flock() that waits for a file server no longer than that, by a thread that the call may leave behind. On local file
/// systems LOCK_NB needs none.
/// Values: operation = LOCK_EX | LOCK_NB and so on. Returns 0 or the error; ETIMEDOUT: no answer.
int lock_within(int fd, int operation, std::chrono::milliseconds patience = kLockPatience);

/// After ETIMEDOUT. Errors: OutputError that names the output.
[[noreturn]] void throw_no_lock(const std::string& output);

/// "No space left on device" for ENOSPC.
std::string error_text(int error);

/// "/proc/self/fd/5": a path by which an unnamed file can be reached.
std::string descriptor_path(int fd);

/// "a directory", "a pipe (FIFO)", ... for the st_mode of a file.
const char* kind_text(unsigned mode);

}  // namespace spmm::io
