// spmm-bench: checksums, differences, limits of time, suites.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "test_paths.hpp"
#include "tools/bench/bench.hpp"
#include "tools/bench/checksum.hpp"

namespace {

using namespace spmm;

const std::string kSuiteFile = SPMM_SOURCE_DIR "/data/suites.json";

}  // namespace

TEST_CASE("bench: another result is a difference in table and JSON", "[tools][bench]") {
  tools::CaseResult result;
  result.what = tools::select_cases(tools::load_suites(kSuiteFile), {}, {"quick-m8"}).at(0);
  tools::KernelResult& kernel = result.kernels.emplace_back();
  kernel.kernel = "wrong";
  kernel.runs = {Report{}};
  kernel.difference = "the checksums differ";
  CHECK_FALSE(kernel.validated());
  CHECK(tools::table_row(result, kernel).find("| NO: the checksums differ |") != std::string::npos);
  CHECK(tools::case_result_json(result)["kernels"][0]["validated"] == false);

  Report report;
  for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s].s = static_cast<double>(1u << s);
  CHECK(tools::device_ms(report) == 1000.0 * (16 + 32 + 64 + 128 + 256));  // build, count, plan, multiply, compact
}

TEST_CASE("bench: checksums are the same for every cut, others for every change", "[tools][bench]") {
  BlockMatrix a{.n = 4, .m = 2, .index = {{1, 1}, {0, 1}, {0, 0}}, .values = {3, 0, 0, 0, 5, 6, 0, 8, 1, 0, 0, 2}};
  const auto checksum_of = [&](std::size_t records_at_once) {
    const ProductMatrix c = Engine().multiply(a, a);
    const std::size_t bytes = output_record_bytes(c.m);
    const std::string file = test::file_of(c);
    const auto records = std::as_bytes(std::span(file)).subspan(kHeaderBytes);
    tools::ChecksumSink sink(c.m, 2);
    for (std::size_t b = 0; b < c.index.size(); b += records_at_once) {
      const std::size_t count = std::min(records_at_once, c.index.size() - b);
      sink.write(b, records.subspan(b * bytes, count * bytes), {});
    }
    sink.finish(c.header());
    return sink.checksum();
  };
  const tools::ResultChecksum whole = checksum_of(100);
  CHECK(whole.num_blocks == 3);
  CHECK(checksum_of(1) == whole);
  CHECK(checksum_of(2) == whole);
  a.values[0] = 4;
  CHECK_FALSE(checksum_of(100) == whole);
  tools::ChecksumSink sink(2, 1);
  CHECK_THROWS_AS(sink.finish({.n = 4, .m = 2, .num_blocks = 1}), IoError);
}

TEST_CASE("bench: suites are data", "[tools][bench]") {
  const std::vector<tools::BenchSuite> suites = tools::load_suites(kSuiteFile);
  for (const auto& suite : suites) {
    // Every pattern has room for its blocks (graphs are drawn, which takes a while).
    for (const auto& one : suite.cases) {
      if (one.pattern == "rmat" && one.header.num_blocks > 100'000) continue;
      INFO(one.name);
      CHECK_NOTHROW(tools::make_pattern(one.pattern, one.header.blocks_per_side(), one.header.num_blocks,
                                        one.pattern_options(1)));
      const std::string other = tools::Json::parse(one.json).value("compare_with", one.name);
      CHECK_NOTHROW(tools::select_cases(suites, {}, {other}));
    }
  }
  const auto chosen = tools::select_cases(suites, {"P", "P"}, {"S3", "P1"});
  REQUIRE(chosen.size() == 6);
  CHECK(chosen[0].name == "P1");
  CHECK(chosen[5].header == MatrixHeader{.n = 32768, .m = 8, .num_blocks = 8800000});
  std::vector<bool> sides(kMaxBlockDim + 1);
  for (const tools::BenchCase& one : tools::select_cases(suites, {"all-sides"}, {})) sides.at(one.header.m) = true;
  CHECK(std::count(sides.begin(), sides.end(), true) == 64);
}
