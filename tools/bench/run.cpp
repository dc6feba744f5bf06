// Times kernels and whole processes on one case, and compares their outputs.
#include "tools/bench/run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/options/words.hpp"
#include "cli/program.hpp"
#include "io/files/input_file.hpp"
#include "io/formats/format.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "tools/bench/checksum_sink.hpp"
#include "tools/compare/compare.hpp"
#include "tools/gen/generate.hpp"

namespace spmm::tools {
namespace {

namespace fs = std::filesystem;
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

unsigned threads_of(const BenchOptions& options) {
  return options.multiply.num_threads != 0 ? options.multiply.num_threads : usable_cores();
}

/// Removes a file when it goes.
struct Scratch {
  fs::path path;
  explicit Scratch(fs::path where) : path(std::move(where)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

/// A run took longer than the user wants to wait.
class TooSlow : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string too_slow_text(std::optional<double> max_s) {
  return text("a run took longer than --max-seconds ", max_s.value_or(0));
}

/// product(options), stopped after the time that the user wants to wait. Errors: TooSlow.
template <class Product>
Report multiply_in_time(Options how, std::optional<double> max_s, const Product& product) {
  const TimeLimit limit(max_s, how.cancel);
  how.cancel = limit.stop_flag();
  try {
    return product(how);
  } catch (const Interrupted&) {
    if (limit.expired()) throw TooSlow(too_slow_text(max_s));
    throw;
  }
}

/// The command of a process that does the same.
std::vector<std::string> process_words(const fs::path& a, const fs::path& b, const fs::path& out, const Options& how) {
  std::vector<std::string> words = {program_folder() / "spmm", a, b, out, "--quiet", "--kernel", how.kernel};
  words.insert(words.end(), {"--backend", std::string(backend_name(how.backend))});
  if (how.device >= 0) words.insert(words.end(), {"--device", std::to_string(how.device)});
  std::string devices;
  for (const int device : how.devices) devices += (devices.empty() ? "" : ",") + std::to_string(device);
  if (how.devices == std::vector<int>{kAllDevices}) devices = "all";
  if (!devices.empty()) words.insert(words.end(), {"--devices", devices});
  if (how.num_threads != 0) words.insert(words.end(), {"--threads", std::to_string(how.num_threads)});
  if (how.memory_limit_bytes != 0)
    words.insert(words.end(), {"--memory-limit", std::to_string(how.memory_limit_bytes)});
  return words;
}

/// Calls body; why it was refused, or "".
template <class Body>
std::string refusal_of(const Body& body) {
  try {
    body();
    return "";
  } catch (const TooSlow& e) {
    return e.what();
  } catch (const UsageError& e) {
    return cli::command_line_words(e.what());
  } catch (const OutOfMemory& e) {
    return cli::command_line_words(e.what());
  } catch (const DeviceError& e) {
    return cli::command_line_words(e.what());
  }
}

/// The memory limit of a case; 0 = none.
std::uint64_t limit_bytes(const BenchCase& one) {
  return static_cast<std::uint64_t>(one.memory_share.value_or(0) * 2 *
                                    static_cast<double>(io::file_bytes_of(ElementType::u16, one.header)));
}

/// One case with its files.
class CaseRun {
 public:
  CaseRun(const BenchCase& bench_case, const BenchOptions& options)
      : options_(options),
        a_(make_input(bench_case, 1, options)),
        b_(make_input(bench_case, 2, options)),
        memory_bytes_(limit_bytes(bench_case)),
        checksum_(options.checksum && memory_bytes_ == 0),
        baseline_(options.work / text("baseline-", getpid(), ".bin")),
        out_(options.work / text("out-", getpid(), ".bin")) {}

  /// Makes the output that all others must equal: by the simplest fast kernel of the backend, else by the first that
  /// runs.
  void make_baseline(CaseResult& result) {
    std::vector<std::string> candidates = options_.kernels;
    std::vector<std::string> baselines = options_.baselines;
    if (baselines.empty()) baselines = {options_.baseline_backend == Backend::cpu ? "row-merge" : "two-pointer"};
    if (baselines == std::vector<std::string>{"other"}) baselines = found_others();
    candidates.insert(candidates.begin(), baselines.begin(), baselines.end());
    result.checksum = checksum_;
    for (const std::string& kernel : candidates) {
      Report report;
      Options how = with_kernel(kernel);
      how.memory_limit_bytes = 0;
      if (!refusal_of([&] { report = multiply_checked(baseline_.path, how, baseline_sum_); }).empty()) continue;
      result.baseline = report.plan.kernel;
      result.baseline_run = report;
      return;
    }
  }

  KernelResult run(const std::string& kernel, bool has_baseline) {
    KernelResult result;
    result.kernel = kernel;
    const Options how = with_kernel(kernel);
    result.refusal = refusal_of([&] {
      try {
        const Report warm_up = multiply_to("/dev/null", how);
        const bool is_slow = options_.filter_s && warm_up.total_s > *options_.filter_s;
        if (is_slow) result.runs.push_back(warm_up);
        for (unsigned r = 0; r < options_.num_runs && !is_slow; ++r)
          result.runs.push_back(multiply_to("/dev/null", how));
        result.file_run = multiply_checked(out_.path, how, out_sum_);
      } catch (const TooSlow&) {
        result.too_slow = true;
        throw;
      }
    });
    if (!result.ran()) {
      result.runs.clear();
      return result;
    }
    result.difference = has_baseline ? difference() : "there is no baseline";
    fs::remove(out_.path);
    return result;
  }

  /// Times processes of a kernel, each of which writes a new file. Errors: Interrupted.
  [[nodiscard]] ProcessTimes time_processes(const std::string& kernel) const {
    const std::vector<std::string> words = process_words(a_, b_, out_.path, with_kernel(kernel));
    ProcessTimes all;
    std::string failure = refusal_of([&] {
      while (all.s.size() < options_.num_runs) {
        if (options_.filter_s && !all.s.empty() && all.s.front() > *options_.filter_s) break;
        fs::remove(out_.path);
        const TimeLimit limit(options_.max_s, options_.multiply.cancel);
        const TimedProcess run = time_process(words, limit.stop_flag());
        cli::check_cancelled("spmm-bench");
        if (limit.expired()) throw TooSlow(too_slow_text(options_.max_s));
        if (run.exit_code != 0) {
          throw DeviceError(words[0], text("ended with exit code ", run.exit_code), "see its message above");
        }
        all.s.push_back(run.s);
        all.peak_resident_bytes = std::max(all.peak_resident_bytes, run.peak_resident_bytes);
      }
    });
    fs::remove(out_.path);
    if (!failure.empty()) return {.s = {}, .failure = std::move(failure)};
    return all;
  }

 private:
  [[nodiscard]] std::string difference() const {
    if (!checksum_) return result_difference(baseline_.path, out_.path);
    if (out_sum_ == baseline_sum_) return "";
    return text("the checksums differ; ", out_sum_.num_blocks, " blocks, the baseline has ", baseline_sum_.num_blocks);
  }

  /// What the exact decision of a first run considered and did not choose; nothing if it did not run.
  [[nodiscard]] std::vector<std::string> found_others() const {
    std::vector<std::string> others;
    (void)refusal_of([&] { others = other_kernels(multiply_to("/dev/null", with_kernel("auto")).plan); });
    return others;
  }

  /// A run whose result can be compared: as a file, or by its checksum.
  Report multiply_checked(const fs::path& out, const Options& options, ResultChecksum& sum) const {
    if (!checksum_) return multiply_to(out, options);
    return multiply_in_time(options, options_.max_s, [&](const Options& how) {
      Engine engine(how);
      const auto a = open_file_source(a_);
      const auto b = open_file_source(b_);
      ChecksumSink sink(a->header().m, threads_of(options_));
      Report report = engine.multiply(*a, *b, sink, how);
      sum = sink.checksum();
      return report;
    });
  }

  [[nodiscard]] Report multiply_to(const fs::path& out, const Options& options) const {
    return multiply_in_time(options, options_.max_s, [&](const Options& how) { return multiply(a_, b_, out, how); });
  }

  [[nodiscard]] Options with_kernel(const std::string& kernel) const {
    Options how = options_.multiply;
    how.kernel = kernel;
    how.memory_limit_bytes = memory_bytes_;
    return how;
  }

  const BenchOptions& options_;
  fs::path a_;
  fs::path b_;
  std::uint64_t memory_bytes_;  // 0 = not limited
  bool checksum_;               // not within a memory limit: without a file, a product may not keep a scratch file
  Scratch baseline_;
  Scratch out_;
  ResultChecksum baseline_sum_;
  ResultChecksum out_sum_;
};

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

std::string result_difference(const fs::path& baseline, const fs::path& found) {
  const MatrixFile left{.file = io::InputFile(baseline, ElementType::u32), .type = ElementType::u32};
  try {
    const MatrixFile right{.file = io::InputFile(found, ElementType::u32), .type = ElementType::u32};
    const MatrixHeader& header = right.file.header();
    if (header.n != left.file.header().n || header.m != left.file.header().m) return "n or m differ";
    const Comparison result = compare_files(left, right, {});
    if (result.same()) return "";
    return text(result.elements, " elements differ; ", result.only_in_left, " blocks are missing, ",
                result.only_in_right, " are too many");
  } catch (const FormatError& e) {
    return text("not a result: ", e.what());
  }
}

Backend backend_of(const Options& options) {
  if (options.backend != Backend::automatic) return options.backend;
  return has_cuda_device() ? Backend::cuda : Backend::cpu;
}

std::vector<std::string> other_kernels(const Plan& plan) {
  if (plan.backend == Backend::cpu) return {"row-merge"};
  const bool is_rows = plan.kernel == "rows" || plan.kernel == "row-spread" || plan.kernel == "pair-list";
  return {is_rows ? "row-rank" : "rows", "two-pointer"};
}

std::vector<std::string> all_kernels(Backend backend) {
  std::vector<std::string> names = {"auto"};
  for (const KernelInfo& kernel : kernel_names()) {
    const bool slow = kernel.name == "reference" || kernel.name == "host-driven";
    if (kernel.backend == backend && !slow) names.push_back(kernel.name);
  }
  return names;
}

fs::path make_input(const BenchCase& one, std::uint64_t seed, const BenchOptions& options) {
  const MatrixHeader& header = one.header;
  const std::string band =
      (one.bandwidth ? text("-w", *one.bandwidth) : "") + (one.group ? text("-g", *one.group) : "");
  const fs::path path =
      options.work / text("n", header.n, "-m", header.m, "-k", header.num_blocks, "-", pattern_name(one.pattern), band,
                          "-max", one.max_value, "-seed", seed, ".bin");
  if (fs::exists(path)) {
    try {
      if (read_header(path) == header) return path;
    } catch (const FormatError&) {
      // Another program's or a damaged file: written again below.
    }
  }
  const std::vector<Part> pattern =
      make_pattern(one.pattern, header.blocks_per_side(), header.num_blocks, one.pattern_options(seed));
  generate_file(path, pattern,
                {.header = header, .seed = seed, .max_value = one.max_value, .num_threads = threads_of(options)});
  return path;
}

std::vector<ProcessTimes> time_processes(const BenchCase& bench_case, const BenchOptions& options) {
  std::vector<ProcessTimes> all;
  if (!options.e2e) return all;
  const CaseRun run(bench_case, options);
  for (const std::string& kernel : options.kernels) all.push_back(run.time_processes(kernel));
  return all;
}

CaseResult run_case(const BenchCase& bench_case, const BenchOptions& options,
                    const std::vector<ProcessTimes>& processes,
                    const std::function<void(const CaseResult&, const KernelResult&)>& on_kernel) {
  CaseResult result;
  result.what = bench_case;
  CaseRun run(bench_case, options);
  run.make_baseline(result);
  for (std::size_t k = 0; k < options.kernels.size(); ++k) {
    KernelResult& kernel = result.kernels.emplace_back(run.run(options.kernels[k], !result.baseline.empty()));
    if (kernel.ran() && k < processes.size()) kernel.processes = processes[k];
    on_kernel(result, kernel);
  }
  return result;
}

}  // namespace spmm::tools
