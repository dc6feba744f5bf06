// What a finished run reports in words: summary line, stage table, plan; and writing of reports.
#pragma once

#include <cstdint>
#include <string>

#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/types.hpp"

namespace spmm::cli {

/// printf into a string, of at most 255 characters.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// What the expected numbers of a plan that is not exact rest on.
const char* assumption(const Plan& plan);

/// "1,204 elements at the limit 4294967295".
std::string saturation_text(std::uint64_t num_saturated);

/// One line: sizes, pairs, speed, seconds, backend and kernel and why; elements at the limit if there are any.
std::string summary_line(const Report& report);

/// Seconds, bytes and rate of every stage that ran.
std::string stage_table(const Report& report);

/// The plan in words, one "name: value" a line.
std::string plan_text(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

/// Writes JSON to a file, as results are written (a temporary file takes its place), or, for "-", to standard output.
/// Errors: OutputError, IoError.
void write_json_text(const std::string& path, const std::string& json);

/// The same for any text; "-" is a file name here.
void write_text(const std::string& path, const std::string& content);

}  // namespace spmm::cli
