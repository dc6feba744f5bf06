// The head of a measurement file: program, revision, date, machine.
#include "tools/common/measurement.hpp"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/run/parallel.hpp"
#include "spmm/multiply.hpp"

namespace spmm::tools {
namespace {

/// The first group of the first line of a file in which the expression is found; "" if there is none.
std::string found_in(const char* path, const char* expression) {
  std::ifstream in(path);
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_search(line, match, std::regex(expression))) return match[1];
  }
  return "";
}

Json machine_json() {
  Json json = {{"cpu", found_in("/proc/cpuinfo", "^model name\\s*: (.*)")},
               {"cores", usable_cores()},
               {"memory_bytes", ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)}};
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ..."
  const std::string driver = found_in("/proc/driver/nvidia/version", " ([0-9]+[.][0-9.]+) ");
  if (!driver.empty()) json["nvidia_driver"] = driver;
  return json;
}

}  // namespace

Json measurement_head(const std::string& program, const std::vector<std::string>& command) {
  const std::string version = version_string();
  std::smatch revision;
  std::regex_search(version, revision, std::regex("\\(git ([^)]*)\\)"));
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[32] = "";
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {{"schema", kMeasurementSchema},
          {"program", program},
          {"version", version},
          {"revision", revision.empty() ? "unknown" : revision[1].str()},
          {"date", date},
          {"command", command},
          {"machine", machine_json()}};
}

}  // namespace spmm::tools
