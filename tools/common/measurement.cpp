// The head of a measurement file: program, revision, date, machine.
#include "tools/common/measurement.hpp"

#include <array>
#include <cctype>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/memory/machine_memory.hpp"
#include "base/run/parallel.hpp"
#include "spmm/multiply.hpp"

namespace spmm::tools {
namespace {

/// 2026-11-21T10:00:00Z.
std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> out{};
  std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return out.data();
}

/// The text behind "key : " in a file of such lines; "" if the file or the key is missing.
std::string field_of(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

/// The machine's memory, whatever of it this process may use.
std::uint64_t machine_memory_bytes() {
  std::uint64_t kib = 0;
  std::istringstream(field_of("/proc/meminfo", "MemTotal")) >> kib;
  return kib * 1024;
}

Json machine_json() {
  Json json = {{"cpu", field_of("/proc/cpuinfo", "model name")},
               {"cores", usable_cores()},
               {"memory_bytes", machine_memory_bytes()}};
  std::ifstream in("/proc/driver/nvidia/version");
  std::string line;
  if (std::getline(in, line)) json["nvidia_driver"] = driver_version_of(line);
  return json;
}

}  // namespace

std::string revision_of(const std::string& version) {
  const std::string mark = "(git ";
  const std::size_t begin = version.find(mark);
  const std::size_t end = version.find(')', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return "unknown";
  return version.substr(begin + mark.size(), end - begin - mark.size());
}

std::string driver_version_of(const std::string& line) {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...": the first word that is digits and
  // dots.
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool has_dot = word.find('.') != std::string::npos;
    if (has_dot && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "";
}

Json measurement_head(const std::string& program, const std::vector<std::string>& command) {
  const std::string version = version_string();
  return {{"schema", kMeasurementSchema},     {"program", program},  {"version", version},
          {"revision", revision_of(version)}, {"date", date_text()}, {"command", command},
          {"machine", machine_json()}};
}

}  // namespace spmm::tools
