// The lowest limits and the free memory on the way up the control groups of this process.
#include "base/memory/control_group.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
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

/// A mounted hierarchy of a controller.
struct Mount {
  fs::path root;  ///< group that is seen at the mount point
  fs::path point;
  bool is_version_2;
};

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

bool has_word(const std::string& list, const std::string& word) {
  std::istringstream words(list);
  for (std::string w; std::getline(words, w, ',');) {
    if (w == word) return true;
  }
  return false;
}

/// Spaces and the like in paths are written \040.
std::string without_escapes(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool escaped = text[at] == '\\' && at + 3 < text.size() &&
                         std::all_of(&text[at + 1], &text[at + 4], [](char c) { return c >= '0' && c <= '7'; });
    plain += escaped ? static_cast<char>(std::stoi(text.substr(at + 1, 3), nullptr, 8)) : text[at];
    at += escaped ? 3 : 0;
  }
  return plain;
}

/// Lines "36 35 98:0 ROOT POINT options optional... - TYPE source SUPER_OPTIONS" (proc(5)).
std::vector<Mount> mounts_of(const std::string& controller, const fs::path& root) {
  std::ifstream in(root / "proc/self/mountinfo");
  std::vector<Mount> mounts;
  for (std::string line; std::getline(in, line);) {
    if (line.find(" - cgroup") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string skipped, group, point, type, options;
    fields >> skipped >> skipped >> skipped >> group >> point;
    while (fields >> skipped && skipped != "-") {
    }
    fields >> type >> skipped >> options;
    const bool is_version_2 = type == "cgroup2";
    if (!is_version_2 && !(type == "cgroup" && has_word(options, controller))) continue;
    mounts.push_back({.root = without_escapes(group), .point = without_escapes(point), .is_version_2 = is_version_2});
  }
  return mounts;
}

/// The group of this process, from lines "ID:CONTROLLERS:PATH"; version 2 has no controllers there.
std::optional<fs::path> own_group(const std::string& controller, const fs::path& root, bool is_version_2) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_version_2 ? controllers.empty() && line.starts_with("0:") : has_word(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// Where the group is below the mount point, as far as that can be seen: "" for the mount point itself, as in
/// containers whose group is named from outside.
fs::path path_below_mount(const fs::path& group, const Mount& mount, const fs::path& root) {
  fs::path below = group.lexically_relative(mount.root);
  if (below.empty() || below == ".") return {};
  if (std::find(below.begin(), below.end(), "..") != below.end()) return {};
  std::error_code ignored;  // what cannot be read counts as missing
  while (!below.empty() && !fs::exists(root / mount.point.relative_path() / below, ignored))
    below = below.parent_path();
  return below;
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

/// Calls look(folder, is_version_2) for the group of this process and all levels above it.
template <class Look>
void for_each_level(const std::string& controller, const fs::path& root, const Look& look) {
  for (const Mount& mount : mounts_of(controller, root)) {
    const auto group = own_group(controller, root, mount.is_version_2);
    if (!group) continue;
    const fs::path point = root / mount.point.relative_path();
    fs::path level = path_below_mount(*group, mount, root);
    for (; !level.empty(); level = level.parent_path()) look(point / level, mount.is_version_2);
    look(point, mount.is_version_2);
  }
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

}  // namespace spmm
