// What the tests (faults.py) and the library that fails calls (fault_shim.cpp) share: a file that both have mapped.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace spmm::test {

/// Calls that can fail, by what they are for.
enum class FaultKind : std::uint32_t {
  open,        ///< open, openat, fopen, opendir, fdopendir, dup (fcntl)
  status,      ///< stat, lstat, fstat, fstatat, fstatfs, access, faccessat
  read,        ///< read
  write,       ///< write, writev
  pread,       ///< pread
  pwrite,      ///< pwrite
  fallocate,   ///< fallocate
  ftruncate,   ///< ftruncate
  link,        ///< linkat
  rename,      ///< renameat, renameat2
  sync,        ///< fsync, fdatasync
  folder,      ///< mkdir, mkdirat
  permission,  ///< fchmod
  lock,        ///< flock
  mmap,        ///< mmap
  memory,      ///< malloc, calloc, realloc, aligned_alloc, posix_memalign: operator new, too
  thread,      ///< pthread_create
  process,     ///< fork
  socket,      ///< socketpair, signalfd
  send,        ///< send
  receive,     ///< recv
  wait,        ///< waitpid, poll: interrupted only
  end,
};
inline constexpr auto kNumFaultKinds = static_cast<std::size_t>(FaultKind::end);

enum class FaultMode : std::uint32_t {
  none,         ///< counts only
  once,         ///< the call with the number `at` fails
  from_here,    ///< and all after it
  shortened,    ///< it reads or writes half of the bytes (at least one)
  interrupted,  ///< it fails with EINTR
  slow,         ///< it takes `error` milliseconds longer
};

/// Zeros are a valid state. Only calls from the program itself and from the C++ library are counted and fail; all
/// processes that have it mapped count together.
struct FaultState {
  FaultKind kind{};
  FaultMode mode{};
  std::uint64_t at = 0;  ///< counted from 1
  std::int32_t error = 0;
  std::array<std::atomic<std::uint64_t>, kNumFaultKinds> num_calls{};
  std::atomic<std::uint64_t> num_failed{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share it");

/// The variable that names the file.
inline constexpr const char* kFaultStateVariable = "SPMM_FAULT_STATE";

}  // namespace spmm::test
