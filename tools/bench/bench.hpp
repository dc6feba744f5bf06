// The parts of spmm-bench: its cases, read from data/suites.json; runs of kernels within a time limit, with their
// results compared; tables, JSON, and the comparison of two measurements.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spmm/multiply.hpp"
#include "spmm/types.hpp"
#include "tools/common/json.hpp"
#include "tools/gen/gen.hpp"

namespace spmm::tools {

// ---- cases

/// A product by name: both operands have this shape and pattern; A has seed 1, B has seed 2.
struct BenchCase {
  std::string name;
  MatrixHeader header;
  std::string pattern = "uniform";
  std::optional<std::uint32_t> bandwidth;
  std::optional<std::uint32_t> group;
  std::uint32_t max_value = 2047;
  std::optional<double> memory_share;  ///< memory limit, over the bytes of both operands
  std::string json;                    ///< its fields, as data/suites.json has them

  /// Share of the blocks that are stored.
  [[nodiscard]] double block_density() const;

  /// Values: seed = of the operand that is generated.
  [[nodiscard]] PatternOptions pattern_options(std::uint64_t seed) const {
    return {.bandwidth = bandwidth, .group = group, .seed = seed};
  }
};

struct BenchSuite {
  std::string name;
  std::vector<BenchCase> cases;
};

/// Errors: InputError (cannot open), FormatError (not JSON, unknown or missing keys, a name twice, an impossible
/// shape).
std::vector<BenchSuite> load_suites(const std::filesystem::path& path);

/// The cases of the named suites and the named cases, in this order, none twice. Errors: UsageError (unknown names).
std::vector<BenchCase> select_cases(const std::vector<BenchSuite>& suites, const std::vector<std::string>& suite_names,
                                    const std::vector<std::string>& case_names);

/// Every suite with its cases, one line each.
std::string suites_text(const std::vector<BenchSuite>& suites);

// ---- runs

struct BenchOptions {
  std::filesystem::path work;        ///< folder of inputs, and of outputs within a memory limit
  std::vector<std::string> kernels;  ///< names, or "auto"
  Options multiply;                  ///< backend, device, threads
  unsigned num_runs = 5;
  std::optional<double> max_s;  ///< of a kernel on a case: a run that takes longer is stopped and the kernel skipped;
                                ///< no other run begins once they have taken so long together
};

struct KernelResult {
  std::string kernel;        ///< as asked for
  std::string refusal;       ///< why it did not run; "" if it did
  bool too_slow = false;     ///< it did not run because it took too long
  std::vector<Report> runs;  ///< to /dev/null, behind one that is not timed
  std::string difference;    ///< from the baseline's result; "" if there is none

  [[nodiscard]] bool ran() const { return refusal.empty(); }
  [[nodiscard]] bool validated() const { return ran() && difference.empty(); }
};

struct CaseResult {
  BenchCase what;
  std::string baseline;  ///< kernel whose result the others must equal; "" if there is none
  std::vector<KernelResult> kernels;
};

/// Writes an input unless the file is there already with the right header and length.
std::filesystem::path make_input(const BenchCase& bench_case, std::uint64_t seed, const BenchOptions& options);

/// Runs every kernel on a case: once for the checksum of its result, then the timed runs to /dev/null. `on_kernel` is
/// called after each. Inputs stay in the work folder, outputs do not. Errors: those of multiply() except UsageError,
/// OutOfMemory and DeviceError, which make a refusal.
CaseResult run_case(const BenchCase& bench_case, const BenchOptions& options,
                    const std::function<void(const CaseResult&, const KernelResult&)>& on_kernel);

// ---- tables and JSON

/// Milliseconds of the stages build, count, plan, multiply and compact.
double device_ms(const Report& report);

/// First lines of the table (Markdown), and one line of it.
std::string table_header();
std::string table_row(const CaseResult& result, const KernelResult& kernel);

/// What holds for all cases of a measurement: measurement_head() and the way it was taken.
Json bench_json(const BenchOptions& options, const std::vector<std::string>& command);

/// One entry of bench_json()["cases"].
Json case_result_json(const CaseResult& result);

struct Diff {
  std::string table;
  bool worse = false;  ///< something got slower, or no longer runs or agrees with its baseline
};

/// Compares the medians of all cases and kernels that both files have. Slower: more than `tolerance` times the old
/// median, and the fastest new run is slower than the slowest old one. Errors: FormatError (not written by spmm-bench),
/// UsageError (nothing in common).
Diff diff_results(const Json& before, const Json& after, double tolerance);

}  // namespace spmm::tools
