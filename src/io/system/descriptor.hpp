// An owned file descriptor, its lock, its bytes, and what the errors of system calls mean to the user.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace spmm::io {

/// Repeats a system call while a signal interrupts it.
template <class Call>
auto retried(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

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
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Takes an exclusive lock of the file if no other process has one. Returns 0 or the error (EWOULDBLOCK: another has).
int try_lock(int fd);

/// Reads bytes at an offset. Returns how many; where they are too few, `error` says why: 0 = the file ends there.
std::size_t read_at(int fd, std::uint64_t offset, std::span<std::byte> dst, int& error);

/// Writes bytes at an offset. Returns how many; where they are too few, `error` says why.
std::size_t write_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes, int& error);

/// "No space left on device" for ENOSPC.
std::string error_text(int error);

/// "/proc/self/fd/5": a path by which an unnamed file can be reached.
std::string descriptor_path(int fd);

/// "a directory", "a pipe (FIFO)", ... for the st_mode of a file.
const char* kind_text(unsigned mode);

}  // namespace spmm::io
