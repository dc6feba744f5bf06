// Runs programs: arguments and environment in; output, exit code and peak memory out.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/files.hpp"

namespace spmm::test {

/// Whether a child of fork() may start threads although its parent has some: ThreadSanitizer and qemu-user end such a
/// child.
#if defined(__SANITIZE_THREAD__) || defined(SPMM_TESTS_EMULATED)
inline constexpr bool kForksWithThreads = false;
#else
inline constexpr bool kForksWithThreads = true;
#endif

struct ProcessOptions {
  /// Added to the environment of the tests, from which all SPMM_* variables are taken away first.
  std::vector<std::pair<std::string, std::string>> env;
  std::filesystem::path folder;       ///< working folder; empty = that of the tests
  std::chrono::seconds timeout{300};  ///< the process is killed after that: against hangs, also on a busy machine
};

struct ProcessResult {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;      ///< the signal that ended it, or 0
  bool timed_out = false;
  std::string out;
  std::string err;
  /// Largest resident set; at least that of the tests at the start of the process (a property of Linux).
  std::uint64_t peak_resident_bytes = 0;
};

/// A running program with an empty standard input. The destructor kills it if wait() was not called.
class Process {
 public:
  /// Shapes: argv[0] is the path of the program. Errors: std::system_error.
  explicit Process(const std::vector<std::string>& argv, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void send_signal(int number) const;

  /// Waits until the program handles the signal itself (before that, the signal would just end it), or has ended.
  /// Errors: std::runtime_error if neither happens in 120 seconds.
  void wait_until_handled(int number) const;

  /// Collects output until the program has ended. Call it once.
  ProcessResult wait();

 private:
  using Clock = std::chrono::steady_clock;

  void collect_output(ProcessResult& result);

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  Clock::time_point deadline_;
};

/// Runs a program to its end.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// Runs `body` in a child process. Returns what `body` returns, or -1 when it throws or a signal ends it.
int exit_status_of(const std::function<int()>& body);

/// As above, as a user without special rights who may have `num_threads` threads in all (0: none beyond those there
/// are).
int exit_status_under_thread_limit(unsigned num_threads, const std::function<int()>& body);

}  // namespace spmm::test
