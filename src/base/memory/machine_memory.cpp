// Free memory and cores: of the machine, and of its control groups if those have less.
#include "base/memory/machine_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace spmm {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The number behind `key` in the first line that begins with it; nothing if there is none, as in "max".
std::optional<std::uint64_t> number_in(const fs::path& file, const std::string& key = "") {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    char* end = nullptr;
    const char* const digits = line.c_str() + key.size();
    const std::uint64_t value = std::strtoull(digits, &end, 10);
    return end == digits ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
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
std::uint64_t available_in(const fs::path& folder, bool is_version_2) {
  const fs::path stat = folder / "memory.stat";
  // Version 1 tells the limit of the levels above, also of those that a container does not see.
  std::uint64_t limit = number_in(stat, "hierarchical_memory_limit ").value_or(kUnlimited);
  for (const char* file : {"memory.max", "memory.high", "memory.limit_in_bytes"}) {
    limit = std::min(limit, number_in(folder / file).value_or(kUnlimited));
  }
  const auto current = number_in(folder / (is_version_2 ? "memory.current" : "memory.usage_in_bytes"));
  if (limit == kUnlimited || !current) return kUnlimited;
  const std::string own = is_version_2 ? "" : "total_";  // of the group and those below it
  const std::uint64_t cached =
      number_in(stat, own + "inactive_file ").value_or(0) + number_in(stat, own + "active_file ").value_or(0);
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

}  // namespace

std::uint64_t control_group_available_bytes(const fs::path& root) {
  std::uint64_t available = kUnlimited;
  for_each_level("memory", root, [&](const fs::path& folder, bool is_version_2) {
    available = std::min(available, available_in(folder, is_version_2));
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

std::uint64_t available_memory_bytes(const fs::path& root) {
  const auto kilobytes = number_in(root / "proc/meminfo", "MemAvailable:");
  // Without /proc: memory that nothing is in, also no page cache, which the system would give back.
  const auto free_pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_AVPHYS_PAGES)));
  const std::uint64_t free_bytes = free_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(kilobytes ? *kilobytes * 1024 : free_bytes, control_group_available_bytes(root));
}

std::uint64_t peak_resident_bytes() {
  // A process begins with the ru_maxrss of the one that started it.
  if (const auto peak = number_in("/proc/self/status", "VmHWM:")) return *peak * 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace spmm
