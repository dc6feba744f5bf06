#include "tools/bench_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>

#include "base/parallel.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/format.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "spmm/error.hpp"
#include "tools/compare.hpp"
#include "tools/generate.hpp"

namespace spmm::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kWritePieceBytes = std::uint64_t{1} << 20;
constexpr unsigned kFloorWriters = 2;
constexpr int kFloorTries = 3;

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

/// Calls piece(buffer, p) for p = 0 .. count - 1 on a few threads, each with a buffer of its own, and tells the
/// seconds.
template <class Piece>
double timed_pieces(unsigned num_workers, std::uint64_t count, std::uint64_t buffer_bytes, const Piece& piece) {
  std::vector<std::vector<std::byte>> buffers(num_workers, std::vector<std::byte>(buffer_bytes));
  std::atomic<std::uint64_t> next{0};
  const auto start = std::chrono::steady_clock::now();
  run_workers(num_workers, [&](unsigned worker) {
    for (std::uint64_t p = next++; p < count; p = next++) {
      cli::check_cancelled("spmm-bench");
      piece(std::span(buffers[worker]), p);
    }
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double read_seconds(const fs::path& path, unsigned num_threads) {
  const io::InputFile file(path, ElementType::u16);
  const std::uint64_t num_records = file.header().num_blocks;
  const std::uint64_t per_read = records_per_read(file.record_bytes());
  return timed_pieces(num_threads, (num_records + per_read - 1) / per_read, per_read * file.record_bytes(),
                      [&](std::span<std::byte> buffer, std::uint64_t p) {
                        const std::uint64_t first = p * per_read;
                        file.read_records(first, std::min(per_read, num_records - first), buffer.data());
                      });
}

/// The file never gets a name and is gone afterwards.
double write_seconds(const fs::path& folder, std::uint64_t bytes) {
  io::OutputFile file(folder / "spmm-bench-floor.bin", {});
  file.expect_bytes(bytes);
  return timed_pieces(kFloorWriters, (bytes + kWritePieceBytes - 1) / kWritePieceBytes, kWritePieceBytes,
                      [&](std::span<std::byte> buffer, std::uint64_t p) {
                        const std::uint64_t offset = p * kWritePieceBytes;
                        file.write_at(offset, buffer.first(std::min(kWritePieceBytes, bytes - offset)));
                      });
}

FloorTimes measure_floor(const fs::path& a, const fs::path& b, const MatrixHeader& c, const BenchOptions& options) {
  FloorTimes best;
  for (int t = 0; t < kFloorTries; ++t) {
    const double read_s = read_seconds(a, threads_of(options)) + read_seconds(b, threads_of(options));
    const double write_s = write_seconds(options.work, io::file_bytes_of(ElementType::u32, c));
    best.read_s = t == 0 ? read_s : std::min(best.read_s, read_s);
    best.write_s = t == 0 ? write_s : std::min(best.write_s, write_s);
  }
  return best;
}

/// Calls body; why it was refused, or "".
template <class Body>
std::string refusal_of(const Body& body) {
  try {
    body();
    return "";
  } catch (const UsageError& e) {
    return e.what();
  } catch (const OutOfMemory& e) {
    return e.what();
  } catch (const DeviceError& e) {
    return e.what();
  }
}

/// One case with its files.
class CaseRun {
 public:
  CaseRun(const BenchCase& bench_case, const BenchOptions& options)
      : options_(options),
        a_(make_input(bench_case, 1, options)),
        b_(make_input(bench_case, 2, options)),
        yardstick_(options.work / text("yardstick-", getpid(), ".bin")),
        out_(options.work / text("out-", getpid(), ".bin")) {}

  /// Makes the output that all others must equal: by the simplest fast kernel of the backend, else by the first that
  /// runs.
  void make_yardstick(CaseResult& result) {
    std::vector<std::string> candidates = options_.kernels;
    const bool on_cpu = options_.yardstick_backend == Backend::cpu;
    candidates.insert(candidates.begin(), on_cpu ? "row-merge" : "two-pointer");
    for (const std::string& kernel : candidates) {
      Report report;
      if (!refusal_of([&] { report = multiply(a_, b_, yardstick_.path, with_kernel(kernel)); }).empty()) continue;
      result.yardstick = report.plan.kernel;
      if (options_.floor) result.floor = measure_floor(a_, b_, report.c, options_);
      return;
    }
  }

  KernelResult run(const std::string& kernel, bool has_yardstick) {
    KernelResult result;
    result.kernel = kernel;
    result.refusal = refusal_of([&] {
      const Options how = with_kernel(kernel);
      const Report warm_up = multiply(a_, b_, "/dev/null", how);
      if (options_.filter_s && warm_up.total_s > *options_.filter_s) {
        result.runs.push_back(warm_up);
      } else {
        for (unsigned r = 0; r < options_.num_runs; ++r) result.runs.push_back(multiply(a_, b_, "/dev/null", how));
      }
      result.file_run = multiply(a_, b_, out_.path, how);
    });
    if (!result.ran()) {
      result.runs.clear();
      return result;
    }
    result.difference = has_yardstick ? result_difference(yardstick_.path, out_.path) : "there is no yardstick";
    fs::remove(out_.path);
    return result;
  }

 private:
  [[nodiscard]] Options with_kernel(const std::string& kernel) const {
    Options how = options_.multiply;
    how.kernel = kernel;
    return how;
  }

  const BenchOptions& options_;
  fs::path a_;
  fs::path b_;
  Scratch yardstick_;
  Scratch out_;
};

}  // namespace

std::string result_difference(const fs::path& yardstick, const fs::path& found) {
  const MatrixFile left{.file = io::InputFile(yardstick, ElementType::u32), .type = ElementType::u32};
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
  const BlockMatrix one{.n = 1, .m = 1, .index = {{0, 0}}, .values = {1}};
  Report report;
  multiply(one, one, options, &report);
  return report.plan.backend;
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
  const std::string band = one.bandwidth ? text("-w", *one.bandwidth) : "";
  const fs::path path = options.work / text("n", header.n, "-m", header.m, "-k", header.num_blocks, "-",
                                            one.pattern_name, band, "-max", one.max_value, "-seed", seed, ".bin");
  if (fs::exists(path)) {
    try {
      if (read_header(path) == header) return path;
    } catch (const FormatError&) {
      // Somebody else's or a damaged file: written again below.
    }
  }
  const std::vector<Part> pattern =
      make_pattern(one.pattern, header.blocks_per_side(), header.num_blocks, one.bandwidth);
  generate_file(path, pattern,
                {.header = header, .seed = seed, .max_value = one.max_value, .num_threads = threads_of(options)});
  return path;
}

CaseResult run_case(const BenchCase& bench_case, const BenchOptions& options,
                    const std::function<void(const CaseResult&, const KernelResult&)>& on_kernel) {
  CaseResult result;
  result.what = bench_case;
  CaseRun run(bench_case, options);
  run.make_yardstick(result);
  for (const std::string& kernel : options.kernels) {
    result.kernels.push_back(run.run(kernel, !result.yardstick.empty()));
    on_kernel(result, result.kernels.back());
  }
  return result;
}

}  // namespace spmm::tools
