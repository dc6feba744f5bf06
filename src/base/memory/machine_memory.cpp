// Free memory: of the machine, and of its control groups if those have less.
#include "base/memory/machine_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/memory/control_group.hpp"

namespace spmm {
std::uint64_t available_memory_bytes(const std::filesystem::path& root) {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  std::ifstream meminfo(root / "proc/meminfo");
  std::uint64_t kib = 0;
  for (std::string key, unit; meminfo >> key >> kib;) {
    std::getline(meminfo, unit);
    if (key != "MemAvailable:") continue;
    available = kib * 1024;
    break;
  }
  return std::min(available, control_group_available_bytes(root));
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace spmm
