// Free memory: of the machine, and of its control groups if those have less.
#include "base/memory/machine_memory.hpp"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/memory/control_group.hpp"

namespace spmm {
namespace {

/// Bytes of the line "KEY: NUMBER kB"; nothing if there is none.
std::optional<std::uint64_t> bytes_of_line(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::strtoull(&line[key.size()], nullptr, 10) * 1024;
  }
  return std::nullopt;
}

/// Without /proc: memory that nothing is in, also no page cache, which the system would give back.
std::uint64_t free_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::numeric_limits<std::uint64_t>::max();
  return std::uint64_t{info.freeram} * info.mem_unit;
}

}  // namespace

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
