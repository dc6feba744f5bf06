// The JSON that spmm-bench reads: suites, and measurements that are compared and tabulated.
#include <nlohmann/json.hpp>

#include "fuzz/fuzz_support.hpp"
#include "tools/bench/bench.hpp"

namespace spmm::fuzz {

void fuzz_json(Bytes bytes) {
  static ScratchFile scratch;
  const std::string& path = scratch.holding(text_of(bytes));
  accepted([&] {
    const std::vector<tools::BenchSuite> suites = tools::load_suites(path);
    std::vector<std::string> names;
    for (const tools::BenchSuite& suite : suites) names.push_back(suite.name);
    for (const tools::BenchCase& one : tools::select_cases(suites, names, {})) {
      require(one.block_density() <= 1, "a case has room for its blocks");
    }
    tools::suites_text(suites);
  });
  accepted([&] {
    const nlohmann::ordered_json measurement = tools::read_json(path);
    tools::diff_results(measurement, measurement, 1.1);
  });
}

}  // namespace spmm::fuzz
