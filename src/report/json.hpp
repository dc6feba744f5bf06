// The report of a product as JSON: the one writer for programs and for the C interface; and its trace.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "report/json_writer.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/trace.hpp"
#include "spmm/types.hpp"

namespace spmm::cli {

/// Names of a run that the library does not know; empty: operands and result in memory.
struct RunNames {
  std::filesystem::path a{}, b{}, out{};
  std::vector<std::string> command{};  ///< program and arguments as given
};

/// How a report is written. A program's own members follow those that all reports have.
struct ReportLayout {
  unsigned indent = 2;  ///< 0: one line
  std::function<void(JsonWriter& json)> add_own{};
};

std::string report_json(const Report& report, const RunNames& names, const ReportLayout& layout = {});
std::string plan_json(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan, const RunNames& names);

/// A trace for chrome://tracing and Perfetto: an array of events in the Trace Event Format, times in microseconds. The
/// host and each device are a process with a name, threads and streams are its threads. The product itself is the first
/// event of the thread that called it.
std::string trace_json(const Trace& trace, const Report& report);

}  // namespace spmm::cli
