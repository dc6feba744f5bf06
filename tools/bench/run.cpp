// Times kernels on one case, and compares their results.
#include "tools/bench/bench.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "io/files/input_file.hpp"
#include "io/formats/format.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "tools/bench/checksum.hpp"
#include "tools/common/matrix_file.hpp"

namespace spmm::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool is_set(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

unsigned threads_of(const BenchOptions& options) {
  return options.multiply.num_threads != 0 ? options.multiply.num_threads : usable_cores();
}

/// A run took longer than the user wants to wait.
class TooSlow : public std::runtime_error {
 public:
  explicit TooSlow(double max_s) : std::runtime_error(text("a run took longer than --max-seconds ", max_s)) {}
};

/// body(options), stopped after the time that the user wants to wait. Threads: starts one if there is a limit. Errors:
/// TooSlow.
template <class Body>
auto in_time(Options how, std::optional<double> max_s, const Body& body) {
  if (!max_s) return body(how);
  const std::atomic<bool>* const asked = std::exchange(how.cancel, nullptr);
  std::atomic<bool> stop{false};
  std::atomic<bool> is_over{false};
  how.cancel = &stop;
  const std::jthread watcher([&](const std::stop_token& done) {
    const auto begin = Clock::now();
    for (; !done.stop_requested() && !stop; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
      is_over = seconds_since(begin) > *max_s;
      stop = is_over || is_set(asked);
    }
  });
  try {
    return body(how);
  } catch (const Interrupted&) {
    if (!is_over || is_set(asked)) throw;
    throw TooSlow(*max_s);
  }
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

/// Kernels that share no product code with the one that a plan has chosen, faster ones first; on the CPU row-merge.
std::vector<std::string> other_kernels(const Plan& plan) {
  if (plan.backend == Backend::cpu) return {"row-merge"};
  const bool is_rows = plan.kernel == "rows" || plan.kernel == "row-spread" || plan.kernel == "pair-list";
  return {is_rows ? "row-rank" : "rows", "two-pointer"};
}

/// The checksum of a result in a file.
ResultChecksum checksum_of_file(const fs::path& path, unsigned num_threads) {
  const io::InputFile file(path, ElementType::u32);
  ChecksumSink sink(file.header().m, num_threads);
  for_each_piece(file, "spmm-bench",
                 [&](std::uint64_t first, std::span<const std::byte> records) { sink.write(first, records, {}); });
  return sink.checksum();
}

/// One case with its files.
class CaseRun {
 public:
  CaseRun(const BenchCase& one, const BenchOptions& options)
      : options_(options),
        a_(make_input(one, 1, options)),
        b_(make_input(one, 2, options)),
        out_(options.work / text("out-", getpid(), ".bin")),
        memory_bytes_(static_cast<std::uint64_t>(
            one.memory_share.value_or(0) * 2 * static_cast<double>(io::file_bytes_of(ElementType::u16, one.header)))) {}
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;
  ~CaseRun() {
    std::error_code ignored;
    fs::remove(out_, ignored);
  }

  /// Runs a kernel; the first one that runs decides which kernel is the baseline of all.
  KernelResult run(const std::string& kernel) {
    KernelResult result;
    result.kernel = kernel;
    const Options how = options_for(kernel);
    const auto begin = Clock::now();
    ResultChecksum found;
    Report first;
    result.refusal = refusal_of([&] {
      try {
        first = multiply_checked(how, found);
      } catch (const TooSlow&) {
        result.too_slow = true;
        throw;
      }
    });
    if (!result.ran()) return result;
    if (baseline_.empty()) make_baseline(first.plan);
    try {
      const auto has_time = [&] { return !options_.max_s || seconds_since(begin) < *options_.max_s; };
      while (result.runs.size() < options_.num_runs && has_time()) {
        result.runs.push_back(
            in_time(how, options_.max_s, [&](const Options& timed) { return multiply(a_, b_, "/dev/null", timed); }));
      }
    } catch (const TooSlow&) {  // the runs before count
    }
    if (result.runs.empty()) result.runs.push_back(first);
    if (baseline_.empty()) result.difference = "there is no baseline";
    if (!baseline_.empty() && found != expected_) {
      result.difference =
          text("the checksums differ; ", found.num_blocks, " blocks, by ", baseline_, " ", expected_.num_blocks);
    }
    return result;
  }

  [[nodiscard]] const std::string& baseline() const { return baseline_; }

 private:
  void make_baseline(const Plan& plan) {
    for (const std::string& kernel : other_kernels(plan)) {
      Options how = options_for(kernel);
      how.memory_limit_bytes = options_.multiply.memory_limit_bytes;
      std::string name;
      if (refusal_of([&] { name = multiply_checked(how, expected_).plan.kernel; }).empty()) baseline_ = name;
      if (!baseline_.empty()) return;
    }
  }

  /// A run with the checksum of its result: of a file within a memory limit, as without one a product may not keep a
  /// scratch file.
  Report multiply_checked(const Options& options, ResultChecksum& checksum) const {
    return in_time(options, options_.max_s, [&](const Options& how) {
      if (how.memory_limit_bytes != 0) {
        Report report = multiply(a_, b_, out_, how);
        checksum = checksum_of_file(out_, threads_of(options_));
        fs::remove(out_);
        return report;
      }
      Engine engine(how);
      const auto a = open_file_source(a_);
      const auto b = open_file_source(b_);
      ChecksumSink sink(a->header().m, threads_of(options_));
      Report report = engine.multiply(*a, *b, sink, how);
      checksum = sink.checksum();
      return report;
    });
  }

  [[nodiscard]] Options options_for(const std::string& kernel) const {
    Options how = options_.multiply;
    how.kernel = kernel;
    how.memory_limit_bytes = memory_bytes_;
    return how;
  }

  const BenchOptions& options_;
  fs::path a_;
  fs::path b_;
  fs::path out_;
  std::uint64_t memory_bytes_;  // 0 = not limited
  std::string baseline_;        // kernel
  ResultChecksum expected_;
};

}  // namespace

fs::path make_input(const BenchCase& one, std::uint64_t seed, const BenchOptions& options) {
  const MatrixHeader& header = one.header;
  const std::string more =
      (one.bandwidth ? text("-w", *one.bandwidth) : "") + (one.group ? text("-g", *one.group) : "");
  const fs::path path = options.work / text("n", header.n, "-m", header.m, "-k", header.num_blocks, "-", one.pattern,
                                            more, "-max", one.max_value, "-seed", seed, ".bin");
  try {
    if (fs::exists(path) && read_header(path) == header) return path;
  } catch (const FormatError&) {  // another program's or a damaged file: written again
  }
  generate_file(path, make_pattern(one.pattern, header.blocks_per_side(), header.num_blocks, one.pattern_options(seed)),
                {.header = header, .seed = seed, .max_value = one.max_value, .num_threads = threads_of(options)});
  return path;
}

CaseResult run_case(const BenchCase& bench_case, const BenchOptions& options,
                    const std::function<void(const CaseResult&, const KernelResult&)>& on_kernel) {
  CaseResult result;
  result.what = bench_case;
  CaseRun run(bench_case, options);
  for (const std::string& name : options.kernels) {
    const KernelResult& kernel = result.kernels.emplace_back(run.run(name));
    result.baseline = run.baseline();
    on_kernel(result, kernel);
  }
  return result;
}

}  // namespace spmm::tools
