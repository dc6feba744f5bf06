// JSON files, and the head of a measurement: program, revision, date, machine.
#include "tools/common/json.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::tools {
namespace {

constexpr int kMeasurementSchema = 1;

/// What follows these words in a text, up to an end or the text's; "" if it does not have them.
std::string text_after(const std::string& words, const std::string& text, char end) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of(" \t:", at + words.size());
  return begin == std::string::npos ? "" : text.substr(begin, text.find(end, begin) - begin);
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
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string cpus{std::istreambuf_iterator<char>(cpuinfo), {}};
  const std::string revision = text_after("(git ", version, ')');
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[32] = "";
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  Json machine = {{"cpu", text_after("model name", cpus, '\n')},
                  {"cores", usable_cores()},
                  {"memory_bytes", ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)}};
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ..."
  std::ifstream words("/proc/driver/nvidia/version");
  std::string driver;
  while (words >> driver && (std::isdigit(driver[0]) == 0 || driver.find('.') == std::string::npos)) driver.clear();
  if (!driver.empty()) machine["nvidia_driver"] = driver;
  return {{"schema", kMeasurementSchema},
          {"program", program},
          {"version", version},
          {"revision", revision.empty() ? "unknown" : revision},
          {"date", date},
          {"command", command},
          {"machine", std::move(machine)}};
}

}  // namespace spmm::tools
