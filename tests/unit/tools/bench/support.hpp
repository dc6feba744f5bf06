// Made-up measurements with known numbers, for tests of what spmm-bench says about them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/run.hpp"

namespace spmm::test {

inline void check_has(const std::string& all, const std::string& part) {
  INFO(all);
  CHECK(all.find(part) != std::string::npos);
}

/// A kernel that took device_ms, all of it in the multiply stage, for as many pairs as result blocks.
inline tools::KernelResult made_up_kernel(const std::string& name, const MatrixHeader& header, double device_ms,
                                          std::uint64_t pairs) {
  Report report;
  report.a = header;
  report.b = header;
  report.c = {.n = header.n, .m = header.m, .num_blocks = static_cast<std::uint32_t>(pairs)};
  report.pairs = pairs;
  report.total_s = device_ms / 500;
  report.stages[static_cast<std::size_t>(Stage::multiply)].s = device_ms / 1000;
  report.plan.kernel = name;
  report.device = "Made-up 9000";
  tools::KernelResult result;
  result.kernel = name;
  result.runs = {report};
  result.file_run = report;
  return result;
}

inline tools::CaseResult made_up_case(const std::string& name, const MatrixHeader& header,
                                      std::vector<tools::KernelResult> kernels) {
  tools::CaseResult result;
  result.what.name = name;
  result.what.header = header;
  result.what.max_value = 2047;
  result.baseline = "made-up";
  result.kernels = std::move(kernels);
  return result;
}

inline nlohmann::ordered_json made_up_measurement(const std::vector<tools::CaseResult>& cases) {
  auto json = tools::bench_json({}, {"spmm-bench"});
  for (const tools::CaseResult& one : cases) json["cases"].push_back(tools::case_result_json(one));
  return json;
}

}  // namespace spmm::test
