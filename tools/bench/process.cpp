// A time limit for work in this process; programs timed from start to end.
#include "tools/bench/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWatchEvery{5};
constexpr std::chrono::microseconds kLookEvery{500};
constexpr unsigned kLooksPerMemory = 8;  // a look at the memory takes some 20 microseconds

bool is_set(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

pid_t start(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw IoError(argv[0], std::strerror(error), "build all programs of the project into one folder");
  return pid;
}

/// VmHWM of a process; 0 once it has ended. The kernel's own record of ended children would count this process too.
std::uint64_t peak_resident_bytes_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  const std::string key = "VmHWM:";
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace

TimeLimit::TimeLimit(std::optional<double> limit_s, const std::atomic<bool>* outer) : outer_(outer) {
  if (!limit_s) return;
  watcher_ = std::jthread([this, limit_s = *limit_s](const std::stop_token& done) {
    const auto begin = Clock::now();
    for (; !done.stop_requested(); std::this_thread::sleep_for(kWatchEvery)) {
      const bool asked = is_set(outer_);
      const bool over = std::chrono::duration<double>(Clock::now() - begin).count() > limit_s;
      if (!asked && !over) continue;
      expired_ = !asked;
      stop_ = true;
      return;
    }
  });
}

TimedProcess time_process(const std::vector<std::string>& argv, const std::atomic<bool>* stop) {
  const auto begin = Clock::now();
  const pid_t pid = start(argv);
  int status = 0;
  bool asked = false;
  std::uint64_t peak = 0;
  for (unsigned look = 0; waitpid(pid, &status, WNOHANG) == 0; ++look) {
    if (look % kLooksPerMemory == kLooksPerMemory - 1) peak = std::max(peak, peak_resident_bytes_of(pid));
    if (!asked && is_set(stop)) {
      kill(pid, SIGTERM);
      asked = true;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  return {.s = std::chrono::duration<double>(Clock::now() - begin).count(),
          .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .peak_resident_bytes = peak};
}

std::filesystem::path program_folder() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw IoError("/proc/self/exe", failed.message(), "run on Linux with /proc mounted");
  return program.parent_path();
}

}  // namespace spmm::tools
