// JSON files, and the head of a measurement: program, revision, date, machine.
#include "tools/common/json.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::tools {
namespace {

constexpr int kMeasurementSchema = 1;

/// The first group of the first line of a file in which the expression is found; "" if there is none.
std::string found_in(const char* path, const char* expression) {
  std::ifstream in(path);
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_search(line, match, std::regex(expression))) return match[1];
  }
  return "";
}

}  // namespace

void write_json(const std::string& path, const Json& json) {
  cli::write_json_text(path, json.dump(2, ' ', true, Json::error_handler_t::replace));
}

Json read_json(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw InputError(path, "cannot be opened", "check the path and its permissions");
  constexpr int kMaxDepth = 64;  // printing what is nested deeper would overflow the stack
  constexpr const char* kHint = "name a file of the documented form";
  const auto check_depth = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth <= kMaxDepth) return true;
    throw FormatError(path, text("is nested more than ", kMaxDepth, " levels deep"), kHint);
  };
  try {
    return Json::parse(in, check_depth);
  } catch (const Json::exception& e) {
    throw FormatError(path, text("is no JSON (", e.what(), ")"), kHint);
  }
}

Json spread_json(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {{"median", median}, {"min", values.front()}, {"max", values.back()}};
}

Json measurement_head(const std::string& program, const std::vector<std::string>& command) {
  const std::string version = version_string();
  std::smatch revision;
  std::regex_search(version, revision, std::regex("\\(git ([^)]*)\\)"));
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[32] = "";
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  Json machine = {{"cpu", found_in("/proc/cpuinfo", "^model name\\s*: (.*)")},
                  {"cores", usable_cores()},
                  {"memory_bytes", ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)}};
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ..."
  const std::string driver = found_in("/proc/driver/nvidia/version", " ([0-9]+[.][0-9.]+) ");
  if (!driver.empty()) machine["nvidia_driver"] = driver;
  return {{"schema", kMeasurementSchema},
          {"program", program},
          {"version", version},
          {"revision", revision.empty() ? "unknown" : revision[1].str()},
          {"date", date},
          {"command", command},
          {"machine", std::move(machine)}};
}

}  // namespace spmm::tools
