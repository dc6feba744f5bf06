// Free memory and cores: of the machine, and of its control groups if those have less.
#include "base/memory/machine_memory.hpp"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace spmm {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// What differs between the two versions of control groups.
struct Version {
  std::vector<const char*> limits;  ///< files
  const char* used;                 ///< file
  std::vector<const char*> caches;  ///< lines of memory.stat: file pages of the group and those below it
  bool tells_above;                 ///< memory.stat has the limit of the levels above
};

const Version kVersion1 = {.limits = {"memory.limit_in_bytes"},
                           .used = "memory.usage_in_bytes",
                           .caches = {"total_inactive_file", "total_active_file"},
                           .tells_above = true};
const Version kVersion2 = {.limits = {"memory.max", "memory.high"},
                           .used = "memory.current",
                           .caches = {"inactive_file", "active_file"},
                           .tells_above = false};

/// A file that holds one number; nothing if it is missing or says "max".
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream in(path);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// Lines "name number".
std::map<std::string, std::uint64_t> read_table(const fs::path& path) {
  std::ifstream in(path);
  std::map<std::string, std::uint64_t> table;
  for (std::string line; std::getline(in, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos) table[line.substr(0, space)] = std::strtoull(&line[space], nullptr, 10);
  }
  return table;
}

/// The group of this process below a mount point, as far as it can be seen there: a container may see its own group, or
/// a part of its path.
fs::path visible_group(const fs::path& point, const fs::path& group) {
  std::error_code ignored;  // what cannot be read counts as missing
  fs::path seen = group.relative_path();
  while (!seen.empty() &&
         (std::find(seen.begin(), seen.end(), "..") != seen.end() || !fs::exists(point / seen, ignored))) {
    const fs::path whole = seen;
    seen.clear();
    for (auto part = std::next(whole.begin()); part != whole.end(); ++part) seen /= *part;
  }
  return seen;
}

/// Calls look(folder, is_version_2) for the group of this process and all levels above it, at the usual mount points.
/// Source: lines "ID:CONTROLLERS:PATH" of proc/self/cgroup; version 2 has no controllers there.
template <class Look>
void for_each_level(const std::string& controller, const fs::path& root, const Look& look) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find("," + controller + ",") == std::string::npos) continue;
    const auto points = is_version_2 ? std::vector{mounts, mounts / "unified"} : std::vector{mounts / controller};
    for (const fs::path& point : points) {
      fs::path level = visible_group(point, line.substr(second + 1));
      for (; !level.empty(); level = level.parent_path()) look(point / level, is_version_2);
      look(point, is_version_2);
    }
  }
}

/// What one group leaves.
std::uint64_t available_in(const fs::path& folder, const Version& version) {
  std::uint64_t limit = kUnlimited;
  for (const char* file : version.limits) limit = std::min(limit, read_number(folder / file).value_or(kUnlimited));
  if (limit == kUnlimited && !version.tells_above) return kUnlimited;
  const auto stat = read_table(folder / "memory.stat");
  // Version 1 tells the limit of the levels above, also of those that a container does not see.
  const auto above = stat.find("hierarchical_memory_limit");
  if (above != stat.end()) limit = std::min(limit, above->second);
  const auto current = read_number(folder / version.used);
  if (limit == kUnlimited || !current) return kUnlimited;
  std::uint64_t cached = 0;
  for (const char* name : version.caches) {
    const auto line = stat.find(name);
    if (line != stat.end()) cached += line->second;
  }
  const std::uint64_t used = *current - std::min(*current, cached);  // the table may be a little older
  return limit - std::min(limit, used);
}

/// Cores whose time one group may take.
unsigned cores_in(const fs::path& folder, bool is_version_2) {
  double quota = 0;  // microseconds of each period; "max", or -1 in version 1: no quota
  double period = 0;
  if (is_version_2) {
    std::ifstream(folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0 || quota / period > UINT_MAX - 1) return UINT_MAX;
  return static_cast<unsigned>(std::ceil(quota / period));
}

/// Bytes of the line "KEY: NUMBER kB"; nothing if there is none.
std::optional<std::uint64_t> bytes_of_line(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::strtoull(&line[key.size()], nullptr, 10) * 1024;
  }
  return std::nullopt;
}

/// Without /proc: memory that nothing is in, also no page cache, which the system would give back.
std::uint64_t free_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return kUnlimited;
  return std::uint64_t{info.freeram} * info.mem_unit;
}

}  // namespace

std::uint64_t control_group_available_bytes(const fs::path& root) {
  std::uint64_t available = kUnlimited;
  for_each_level("memory", root, [&](const fs::path& folder, bool is_version_2) {
    available = std::min(available, available_in(folder, is_version_2 ? kVersion2 : kVersion1));
  });
  return available;
}

unsigned control_group_cores(const fs::path& root) {
  unsigned cores = UINT_MAX;
  for_each_level("cpu", root, [&](const fs::path& folder, bool is_version_2) {
    cores = std::min(cores, cores_in(folder, is_version_2));
  });
  return cores;
}

std::uint64_t available_memory_bytes(const std::filesystem::path& root) {
  const auto available = bytes_of_line(root / "proc/meminfo", "MemAvailable:");
  return std::min(available ? *available : free_bytes(), control_group_available_bytes(root));
}

std::uint64_t peak_resident_bytes() {
  // A process begins with the ru_maxrss of the one that started it.
  if (const auto peak = bytes_of_line("/proc/self/status", "VmHWM:")) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace spmm
