// What a finished run says about itself: summary line, stage table, plan, JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/types.hpp"

namespace spmm::cli {

/// Names of a run that the library does not know.
struct RunNames {
  std::filesystem::path a, b, out;
  std::vector<std::string> command;  ///< program and arguments as given
};

/// "1,204 elements at the limit 4294967295".
std::string saturation_text(std::uint64_t num_saturated);

/// One line: sizes, pairs, speed, seconds, backend and kernel and why; elements at the limit if there are any.
std::string summary_line(const Report& report);

/// Seconds, bytes and rate of every stage that ran.
std::string stage_table(const Report& report);

/// The plan in words, one "name: value" a line.
std::string plan_text(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

nlohmann::ordered_json report_json(const Report& report, const RunNames& names);
nlohmann::ordered_json plan_json(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan, const RunNames& names);

/// Writes to a file, as results are written (a temporary file takes its place), or, for "-", to standard output.
/// Errors: OutputError, IoError.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// The same for any text; "-" is a file name here.
void write_text(const std::string& path, const std::string& content);

}  // namespace spmm::cli
