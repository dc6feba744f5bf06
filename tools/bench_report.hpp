// What spmm-bench says about its runs: a table for people, JSON, and the comparison of two JSON files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench_run.hpp"

namespace spmm::tools {

/// Milliseconds that the reason of a run ("...; predicted rows 0.916 ms, dense-tensor 150 ms") predicts for `kernel`.
std::optional<double> predicted_ms(const std::string& reason, const std::string& kernel);

/// Milliseconds of the stages build, count, plan, multiply and compact.
double device_ms(const Report& report);

/// First lines of the table (Markdown), and one line of it.
std::string table_header(bool with_floor);
std::string table_row(const CaseResult& result, const KernelResult& kernel, bool with_floor);

/// What holds for all cases of a measurement.
nlohmann::ordered_json bench_json(const BenchOptions& options, const std::vector<std::string>& command);

/// One entry of bench_json()["cases"].
nlohmann::ordered_json case_result_json(const CaseResult& result);

struct Diff {
  std::string table;
  bool worse = false;  ///< something got slower, or no longer runs or agrees with its yardstick
};

/// Compares the medians of all cases and kernels that both files have. Slower: more than `tolerance` times the old
/// median, and the fastest new run is slower than the slowest old one. Errors: FormatError (not written by spmm-bench),
/// UsageError (nothing in common).
Diff diff_results(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after, double tolerance);

}  // namespace spmm::tools
