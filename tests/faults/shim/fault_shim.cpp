// A library to be preloaded (LD_PRELOAD): counts calls of the system's library and lets one of them, or all from one
// on, fail. Starts with main(); what runs before it (constructors, the dynamic linker) is not ours to survive.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "faults/fault_state.hpp"

extern "C" {
void* __libc_malloc(size_t);            // NOLINT: names of glibc
void* __libc_calloc(size_t, size_t);    // NOLINT
void* __libc_realloc(void*, size_t);    // NOLINT
void* __libc_memalign(size_t, size_t);  // NOLINT
}

namespace {

using spmm::test::FaultKind;
using spmm::test::FaultMode;
using spmm::test::FaultState;

struct Code {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
Code program;
Code own_library;  // libspmm.so, if the program uses it
Code cpp_library;
FaultState* state = nullptr;

enum class Outcome : std::uint8_t { normal, failed, shortened };

bool is_ours(const void* caller) {
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  const auto has = [at](const Code& code) { return at >= code.begin && at < code.end; };
  return has(program) || has(own_library) || has(cpp_library);
}

void wait_ms(std::int32_t length) {
  timespec left{.tv_sec = length / 1000, .tv_nsec = length % 1000 * 1'000'000L};
  while (::nanosleep(&left, &left) != 0) {
  }
}

/// Counts a call and says how it ends; errno is set where it fails.
Outcome next(FaultKind kind, const void* caller, bool can_be_short = false) {
  if (state == nullptr || !is_ours(caller)) return Outcome::normal;
  const std::uint64_t number = state->num_calls[static_cast<std::size_t>(kind)].fetch_add(1) + 1;
  if (kind != state->kind || state->mode == FaultMode::none) return Outcome::normal;
  if (number != state->at && !(state->mode == FaultMode::from_here && number > state->at)) return Outcome::normal;
  if (state->mode == FaultMode::shortened && !can_be_short) return Outcome::normal;
  state->num_failed.fetch_add(1);
  if (state->mode == FaultMode::slow) wait_ms(state->error);
  if (state->mode == FaultMode::slow) return Outcome::normal;
  if (state->mode == FaultMode::shortened) return Outcome::shortened;
  errno = state->mode == FaultMode::interrupted ? EINTR : state->error;
  return Outcome::failed;
}

bool fails(FaultKind kind, const void* caller) {
  return next(kind, caller) == Outcome::failed;
}

/// The function that this library stands in front of.
template <class Function>
Function* real(Function* /*type*/, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int note_code(dl_phdr_info* info, size_t /*size*/, void* /*unused*/) {
  const bool is_program = program.end == 0;  // the first one
  const bool is_own = !is_program && std::strstr(info->dlpi_name, "libspmm.so") != nullptr;
  if (!is_program && !is_own && std::strstr(info->dlpi_name, "libstdc++") == nullptr) return 0;
  Code& code = is_program ? program : is_own ? own_library : cpp_library;
  for (int p = 0; p < info->dlpi_phnum; ++p) {
    const auto& part = info->dlpi_phdr[p];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    code.begin = info->dlpi_addr + part.p_vaddr;
    code.end = code.begin + part.p_memsz;
  }
  return 0;
}

/// Maps the state and begins to count. Does nothing without the variable.
void arm() {
  const char* const path = std::getenv(spmm::test::kFaultStateVariable);
  // Programs under test behave as without a preloaded library, and hand it to no other program.
  unsetenv("LD_PRELOAD");
  if (path == nullptr) return;
  const auto fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  if (fd < 0) std::abort();
  void* const data = reinterpret_cast<void*>(
      ::syscall(SYS_mmap, nullptr, sizeof(FaultState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ::syscall(SYS_close, fd);
  dl_iterate_phdr(note_code, nullptr);
  if (data == MAP_FAILED || program.end == 0) std::abort();
  state = static_cast<FaultState*>(data);
}

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

int armed_main(int argc, char** argv, char** environment) {
  arm();
  return program_main(argc, argv, environment);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define SPMM_CALLER __builtin_return_address(0)
#define SPMM_REAL(name) static auto* const real_call = real(&::name, #name)
/// A function of the system that fails or is called: RESULT NAME(parameters), its exception specification, the kind of
/// its faults, what it returns if it fails, its arguments.
#define SPMM_FAILS(result, name, specification, kind, failure, arguments, ...)    \
  result name(__VA_ARGS__) specification {                                        \
    SPMM_REAL(name);                                                              \
    return fails(FaultKind::kind, SPMM_CALLER) ? (failure) : real_call arguments; \
  }
/// The same of one that moves up to `size` bytes, half of them if it is shortened.
#define SPMM_MOVES(name, kind, arguments, half, ...)                      \
  ssize_t name(__VA_ARGS__) {                                             \
    SPMM_REAL(name);                                                      \
    const Outcome outcome = next(FaultKind::kind, SPMM_CALLER, size > 1); \
    if (outcome == Outcome::shortened) size = half;                       \
    return outcome == Outcome::failed ? -1 : real_call arguments;         \
  }

extern "C" {

int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*loader_fini)(),
                      void* stack_end) {
  using Start = int(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  program_main = main;
  return reinterpret_cast<Start*>(dlsym(RTLD_NEXT, "__libc_start_main"))(armed_main, argc, argv, init, fini,
                                                                         loader_fini, stack_end);
}

// ---- files

int open(const char* path, int flags, ...) {
  SPMM_REAL(open);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return fails(FaultKind::open, SPMM_CALLER) ? -1 : real_call(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  SPMM_REAL(openat);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return fails(FaultKind::open, SPMM_CALLER) ? -1 : real_call(folder, path, flags, mode);
}

SPMM_FAILS(FILE*, fopen, /**/, open, nullptr, (path, mode), const char* path, const char* mode)
SPMM_FAILS(FILE*, fopen64, /**/, open, nullptr, (path, mode), const char* path, const char* mode)
SPMM_FAILS(DIR*, opendir, /**/, open, nullptr, (path), const char* path)
SPMM_FAILS(DIR*, fdopendir, /**/, open, nullptr, (fd), int fd)

int fcntl(int fd, int command, ...) {
  SPMM_REAL(fcntl);
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool duplicates = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  return duplicates && fails(FaultKind::open, SPMM_CALLER) ? -1 : real_call(fd, command, argument);
}

int stat(const char* path, struct stat* info) noexcept {
  static auto* const real_call = reinterpret_cast<int (*)(const char*, struct stat*)>(dlsym(RTLD_NEXT, "stat"));
  return fails(FaultKind::status, SPMM_CALLER) ? -1 : real_call(path, info);
}

SPMM_FAILS(int, lstat, noexcept, status, -1, (path, info), const char* path, struct stat* info)
SPMM_FAILS(int, fstat, noexcept, status, -1, (fd, info), int fd, struct stat* info)
SPMM_FAILS(int, fstatat, noexcept, status, -1, (folder, path, info, flags), int folder, const char* path,
           struct stat* info, int flags)
SPMM_FAILS(int, fstatfs, noexcept, status, -1, (fd, info), int fd, struct statfs* info)
SPMM_FAILS(int, access, noexcept, status, -1, (path, kind), const char* path, int kind)
SPMM_FAILS(int, faccessat, noexcept, status, -1, (folder, path, kind, flags), int folder, const char* path, int kind,
           int flags)
SPMM_FAILS(int, fallocate, /**/, fallocate, -1, (fd, mode, offset, length), int fd, int mode, off_t offset,
           off_t length)
SPMM_FAILS(int, ftruncate, noexcept, ftruncate, -1, (fd, length), int fd, off_t length)
SPMM_FAILS(int, linkat, noexcept, link, -1, (from_folder, from, to_folder, to, flags), int from_folder,
           const char* from, int to_folder, const char* to, int flags)
SPMM_FAILS(int, renameat, noexcept, rename, -1, (from_folder, from, to_folder, to), int from_folder, const char* from,
           int to_folder, const char* to)
SPMM_FAILS(int, renameat2, noexcept, rename, -1, (from_folder, from, to_folder, to, flags), int from_folder,
           const char* from, int to_folder, const char* to, unsigned flags)
SPMM_FAILS(int, fsync, /**/, sync, -1, (fd), int fd)
SPMM_FAILS(int, fdatasync, /**/, sync, -1, (fd), int fd)
SPMM_FAILS(int, mkdir, noexcept, folder, -1, (path, mode), const char* path, mode_t mode)
SPMM_FAILS(int, mkdirat, noexcept, folder, -1, (folder, path, mode), int folder, const char* path, mode_t mode)
SPMM_FAILS(int, fchmod, noexcept, permission, -1, (fd, mode), int fd, mode_t mode)
SPMM_FAILS(int, flock, noexcept, lock, -1, (fd, kind), int fd, int kind)

// ---- bytes

SPMM_MOVES(read, read, (fd, to, size), size / 2, int fd, void* to, size_t size)
SPMM_MOVES(write, write, (fd, from, size), size / 2, int fd, const void* from, size_t size)
SPMM_MOVES(writev, write, (fd, pieces, size), 1, int fd, const iovec* pieces, int size)
SPMM_MOVES(pread, pread, (fd, to, size, offset), size / 2, int fd, void* to, size_t size, off_t offset)
SPMM_MOVES(pwrite, pwrite, (fd, from, size, offset), size / 2, int fd, const void* from, size_t size, off_t offset)

// ---- memory

SPMM_FAILS(void*, mmap, noexcept, mmap, MAP_FAILED, (at, size, protection, flags, fd, offset), void* at, size_t size,
           int protection, int flags, int fd, off_t offset)

void* malloc(size_t size) noexcept {
  return fails(FaultKind::memory, SPMM_CALLER) ? nullptr : __libc_malloc(size);
}

void* calloc(size_t count, size_t size) noexcept {
  return fails(FaultKind::memory, SPMM_CALLER) ? nullptr : __libc_calloc(count, size);
}

void* realloc(void* data, size_t size) noexcept {
  return fails(FaultKind::memory, SPMM_CALLER) ? nullptr : __libc_realloc(data, size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return fails(FaultKind::memory, SPMM_CALLER) ? nullptr : __libc_memalign(alignment, size);
}

int posix_memalign(void** data, size_t alignment, size_t size) noexcept {
  if (fails(FaultKind::memory, SPMM_CALLER)) return ENOMEM;
  *data = __libc_memalign(alignment, size);
  return *data == nullptr ? ENOMEM : 0;
}

// ---- threads and processes

SPMM_FAILS(int, pthread_create, noexcept, thread, errno, (thread, attributes, body, argument), pthread_t* thread,
           const pthread_attr_t* attributes, void* (*body)(void*), void* argument)
SPMM_FAILS(pid_t, fork, noexcept, process, -1, (), )
SPMM_FAILS(int, socketpair, noexcept, socket, -1, (domain, type, protocol, ends), int domain, int type, int protocol,
           int ends[2])
SPMM_FAILS(int, signalfd, noexcept, socket, -1, (fd, mask, flags), int fd, const sigset_t* mask, int flags)
SPMM_FAILS(ssize_t, send, /**/, send, -1, (fd, from, size, flags), int fd, const void* from, size_t size, int flags)
SPMM_FAILS(ssize_t, recv, /**/, receive, -1, (fd, to, size, flags), int fd, void* to, size_t size, int flags)
SPMM_FAILS(pid_t, waitpid, /**/, wait, -1, (pid, status, options), pid_t pid, int* status, int options)
SPMM_FAILS(int, poll, /**/, wait, -1, (fds, count, timeout), pollfd* fds, nfds_t count, int timeout)

}  // extern "C"
