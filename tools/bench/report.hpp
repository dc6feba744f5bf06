// What spmm-bench says about its runs: a table as text, JSON, and the comparison of two JSON files.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/run.hpp"
#include "tools/common/json.hpp"

namespace spmm::tools {

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
