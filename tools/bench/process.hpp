// Bounded runs: a time limit for work in this process, and programs timed from start to end.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace spmm::tools {

/// A flag for Options::cancel that is set when the time is over, or when `outer` is set.
/// Threads: starts one if there is a limit; without one the flag is `outer` itself.
class TimeLimit {
 public:
  /// Values: outer may be null; it must outlive the object.
  TimeLimit(std::optional<double> limit_s, const std::atomic<bool>* outer);

  [[nodiscard]] const std::atomic<bool>* stop_flag() const { return watcher_.joinable() ? &stop_ : outer_; }

  /// Whether the time was over, and `outer` was not set.
  [[nodiscard]] bool expired() const { return expired_; }

 private:
  const std::atomic<bool>* outer_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> expired_{false};
  std::jthread watcher_;  // last: ends before what it sets
};

/// How a program ended.
struct TimedProcess {
  double s = 0;                           ///< from before its start until its end was seen, to half a millisecond
  int exit_code = -1;                     ///< -1 if a signal ended it
  std::uint64_t peak_resident_bytes = 0;  ///< as last seen while it ran: of a process of some milliseconds, too little
};

/// Runs a program with its standard output discarded; SIGTERM goes to it once *stop is set.
/// Shapes: argv[0] is the path of the program. Values: stop may be null. Errors: IoError (it cannot be started).
TimedProcess time_process(const std::vector<std::string>& argv, const std::atomic<bool>* stop);

/// Folder of the running program. Errors: IoError.
std::filesystem::path program_folder();

}  // namespace spmm::tools
