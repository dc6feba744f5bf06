// Files of the GPU driver are left to a process that waits for this one: the driver takes 0.1 s to close them.
#include "tools/spmm/early_end.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cli/program.hpp"

namespace spmm::tools {
namespace {

bool is_traced() {
  constexpr std::string_view kKey = "TracerPid:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return std::atoi(line.c_str() + kKey.size()) != 0;
  }
  return true;  // not known
}

/// Whether a descriptor's file has a path that begins so.
bool has_prefix(const char* descriptor, int folder, std::string_view prefix) {
  std::array<char, 256> path{};
  const ssize_t length = ::readlinkat(folder, descriptor, path.data(), path.size());
  return length > 0 && std::string_view(path.data(), static_cast<std::size_t>(length)).starts_with(prefix);
}

/// Lets started programs inherit these files and no others, but for the standard streams. Returns how many.
int inherit_only(std::string_view prefix) {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int num_inherited = 0;
  while (const dirent* const entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd <= STDERR_FILENO) continue;  // also "." and ".."
    const bool is_inherited = has_prefix(entry->d_name, ::dirfd(folder), prefix);
    ::fcntl(fd, F_SETFD, is_inherited ? 0 : FD_CLOEXEC);
    num_inherited += is_inherited ? 1 : 0;
  }
  ::closedir(folder);
  return num_inherited;
}

/// A process that ends at the end of a pipe. A program of the system, and not this one in shared memory: a program
/// cannot be replaced (cp) while memory of it is in use.
bool start_reader(int pipe_end) {
  constexpr const char* kProgram = "/bin/cat";
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  posix_spawnattr_t attributes;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return false;
  }
  sigset_t all;
  sigfillset(&all);
  std::string name = "cat";
  const std::array<char*, 2> arguments = {name.data(), nullptr};
  const std::array<char*, 1> environment = {nullptr};
  pid_t pid = -1;
  const bool is_started = posix_spawnattr_setsigmask(&attributes, &all) == 0 &&
                          posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK) == 0 &&
                          posix_spawn_file_actions_adddup2(&actions, pipe_end, STDIN_FILENO) == 0 &&
                          posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                          posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO) == 0 &&
                          posix_spawn(&pid, kProgram, &actions, &attributes, arguments.data(), environment.data()) == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return is_started;
}

}  // namespace

bool may_end_early() {
  const char* const preloaded = std::getenv("LD_PRELOAD");
  return cli::ends_at_once() && (preloaded == nullptr || *preloaded == '\0') && ::getpid() != 1 && !is_traced();
}

bool leave_files(std::string_view prefix) noexcept {
  try {
    std::array<int, 2> ends{};
    // The end that is written to stays open until the system closes all files of this process.
    if (::chdir("/") != 0 || ::pipe(ends.data()) != 0) return false;
    const bool is_left = inherit_only(prefix) > 0 && start_reader(ends[0]);
    ::close(ends[0]);
    return is_left;
  } catch (...) {  // no memory: the end takes longer
    return false;
  }
}

}  // namespace spmm::tools
