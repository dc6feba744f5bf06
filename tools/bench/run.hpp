// Times kernels and whole processes on one case, within a time limit, and compares their results.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "spmm/multiply.hpp"
#include "tools/bench/suites.hpp"

namespace spmm::tools {

struct BenchOptions {
  std::filesystem::path work;        ///< folder of inputs, and of outputs within a memory limit
  std::vector<std::string> kernels;  ///< names, or "auto"
  Options multiply;                  ///< backend, device, threads
  unsigned num_runs = 5;
  std::optional<double> max_s;  ///< of a kernel on a case: a run that takes longer is stopped and the kernel skipped;
                                ///< no other run begins once they have taken so long together
  bool e2e = false;             ///< also time whole processes
};

/// Whole processes `spmm A B OUT` of one kernel that write a new file.
struct ProcessTimes {
  std::vector<double> s;
  std::uint64_t peak_resident_bytes = 0;  ///< of the largest
  std::string failure;                    ///< why there are none, if they were asked for
};

struct KernelResult {
  std::string kernel;        ///< as asked for
  std::string refusal;       ///< why it did not run; "" if it did
  bool too_slow = false;     ///< it did not run because it took too long
  std::vector<Report> runs;  ///< to /dev/null, behind one that is not timed
  std::string difference;    ///< from the baseline's result; "" if there is none
  ProcessTimes processes;

  [[nodiscard]] bool ran() const { return refusal.empty(); }
  [[nodiscard]] bool validated() const { return ran() && difference.empty(); }
};

struct CaseResult {
  BenchCase what;
  std::string baseline;  ///< kernel whose result the others must equal; "" if there is none
  std::vector<KernelResult> kernels;
};

/// The backend that multiply() takes with these options. Errors: DeviceError.
Backend backend_of(const Options& options);

/// Kernels that "all" stands for: "auto" and every kernel of the backend but the slow reference and host-driven.
std::vector<std::string> all_kernels(Backend backend);

/// Writes an input unless the file is there already with the right header and length.
std::filesystem::path make_input(const BenchCase& bench_case, std::uint64_t seed, const BenchOptions& options);

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

/// Seconds of a program whose standard output is discarded, to half a millisecond, and its exit code, -1 if a signal
/// ended it. SIGTERM goes to it once *stop is set.
/// Shapes: argv[0] is the path of the program. Values: stop may be null. Errors: IoError (it cannot be started).
std::pair<double, int> time_process(const std::vector<std::string>& argv, const std::atomic<bool>* stop);

/// Folder of the running program. Errors: IoError.
std::filesystem::path program_folder();

/// Times processes of each of BenchOptions::kernels, if the options say so. For all cases before the first run_case():
/// a process that holds a context of CUDA makes each start and end of CUDA in other processes cheaper. Inputs stay in
/// the work folder. Errors: those of generate_file(); Interrupted.
std::vector<ProcessTimes> time_processes(const BenchCase& bench_case, const BenchOptions& options);

/// Runs every kernel on a case: once for the checksum of its result, then the timed runs to /dev/null. `on_kernel` is
/// called after each. Inputs stay in the work folder, outputs do not. Errors: those of multiply() except UsageError,
/// OutOfMemory and DeviceError, which make a refusal.
/// Values: processes = what time_processes() gave for the same case and options.
CaseResult run_case(const BenchCase& bench_case, const BenchOptions& options,
                    const std::vector<ProcessTimes>& processes,
                    const std::function<void(const CaseResult&, const KernelResult&)>& on_kernel);

}  // namespace spmm::tools
