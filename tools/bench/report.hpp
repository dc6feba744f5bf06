// What spmm-bench says about its runs: tables as text, JSON, and the comparison of two JSON files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/run.hpp"
#include "tools/common/json.hpp"

namespace spmm::tools {

/// Milliseconds that a run whose kernel was chosen has predicted for `kernel`.
std::optional<double> predicted_ms(const Plan& plan, const std::string& kernel);

/// The same for the kernel that ran, from its own plan or that of another kernel on this case.
std::optional<double> predicted_ms(const CaseResult& result, const KernelResult& kernel);

/// Milliseconds of the stages build, count, plan, multiply and compact.
double device_ms(const Report& report);

/// First lines of the table (Markdown), and one line of it.
std::string table_header();
std::string table_row(const CaseResult& result, const KernelResult& kernel);

/// What holds for all cases of a measurement: measurement_head() and the way it was taken.
Json bench_json(const BenchOptions& options, const std::vector<std::string>& command);

/// One entry of bench_json()["cases"].
Json case_result_json(const CaseResult& result);

/// Sets "compared" in every kernel whose case has a partner that the same kernel ran on: the ratios of device_ms and
/// multiply_ms, each per pair * m^3. Shapes: `measurement` is bench_json() with its cases.
void add_comparisons(Json& measurement);

/// Tables of a measurement in Markdown; each "" if it would have no row.
/// prediction: what the planner expected next to what was measured, with a word on what is off by more than 1.5.
/// comparison: the ratios of add_comparisons().
/// process: whole processes, the same within this one, and published times.
std::string prediction_table(const Json& measurement);

/// Cases with a memory limit and the same without: seconds, bytes read, and what was predicted.
std::string limits_table(const Json& measurement);
std::string comparison_table(const Json& measurement);
std::string process_table(const Json& measurement);

/// "12.3" with three digits, whole above 1000.
std::string short_number(double value);

/// "| a | b |" and a new line.
std::string table_line(const std::vector<std::string>& cells);

/// The names of the columns and the line below them.
std::string table_head(const std::vector<std::string>& names);

struct Diff {
  std::string table;
  bool worse = false;  ///< something got slower, or no longer runs or agrees with its baseline
};

/// Compares the medians of all cases and kernels that both files have. Slower: more than `tolerance` times the old
/// median, and the fastest new run is slower than the slowest old one. Errors: FormatError (not written by spmm-bench),
/// UsageError (nothing in common).
Diff diff_results(const Json& before, const Json& after, double tolerance);

}  // namespace spmm::tools
