// The library: a process whose product met a fault multiplies again; see library/fault_products.cpp.
#include "faults/fault_run.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

using namespace spmm::test;

TEST_CASE("a process multiplies on after every fault of a product") {
  for (const char* const scenario : {"files", "engine", "memory", "slabs", "mapped"}) {
    const FaultFile file;
    ProcessOptions options{.env = {{"LD_PRELOAD", SPMM_FAULT_SHIM}, {kFaultStateVariable, file.path()}},
                           .folder = {},
                           .timeout = std::chrono::hours(1)};  // each product has its own limit
    for (const char* const name : {"SPMM_TEST_FAULTS", "SPMM_TEST_FAULTS_SHARE", "SPMM_TEST_FAULT_POINT"}) {
      if (const char* const value = std::getenv(name)) options.env.emplace_back(name, value);
    }
    const ProcessResult result = run_process({SPMM_FAULT_PRODUCTS, scenario, file.path()}, options);
    INFO(scenario << ": exit code " << result.exit_code << ", signal " << result.signal << "\n" << result.err);
    CHECK(result.exit_code == 0);
    WARN(result.out);
  }
}
