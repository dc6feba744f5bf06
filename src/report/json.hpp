// The report of a product as JSON: the one writer for programs and for the C interface.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "report/json_writer.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"
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

}  // namespace spmm::cli
