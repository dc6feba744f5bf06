// Which lists of devices options may name. A separate file: tests on one GPU replace the function.
#include <algorithm>

#include "base/text.hpp"
#include "engine/devices.hpp"
#include "spmm/error.hpp"

namespace spmm {

void check_device_list(const std::vector<int>& named, int device) {
  constexpr const char* kDevices = "EngineOptions::devices";
  if (!named.empty() && device >= 0) {
    throw UsageError(kDevices, "is given together with EngineOptions::device", "leave one of them out");
  }
  if (named == std::vector<int>{kAllDevices}) return;
  for (std::size_t x = 0; x < named.size(); ++x) {
    if (named[x] < 0) throw UsageError(kDevices, text("device ", named[x]), "use numbers from 0, or \"all\"");
    const auto before = named.begin() + static_cast<std::ptrdiff_t>(x);
    if (std::find(named.begin(), before, named[x]) == before) continue;
    throw UsageError(kDevices, text("device ", named[x], " is listed twice"), "name each device once");
  }
}

}  // namespace spmm
