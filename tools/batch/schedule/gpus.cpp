#include "tools/batch/schedule/gpus.hpp"

#include <algorithm>
#include <sstream>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

constexpr std::uint64_t kMaxGpus = 1024;

}  // namespace

std::vector<std::string> wanted_gpus(const std::string& wish, const std::string& where,
                                     const std::vector<std::string>& all) {
  if (wish == "auto") return all;
  std::vector<std::string> gpus;
  if (wish == "none") return gpus;
  std::istringstream numbers(wish + ",");
  for (std::string number; std::getline(numbers, number, ',');) {
    const std::uint64_t g = cli::parse_count(number, where, 0, kMaxGpus);
    if (g >= all.size()) {
      throw UsageError(where, text("there is no GPU ", g, ", found ", all.size()), "give auto, none or numbers from 0");
    }
    if (std::find(gpus.begin(), gpus.end(), all[g]) != gpus.end()) {
      throw UsageError(where, text("names GPU ", g, " twice"), "name each GPU once");
    }
    gpus.push_back(all[g]);
  }
  return gpus;
}

}  // namespace spmm::batch
