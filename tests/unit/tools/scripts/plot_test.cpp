// plot_bench.py on made-up measurements: crossing points, tables, pictures.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "test_paths.hpp"
#include "unit/tools/bench/support.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

ProcessResult run_plot(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SPMM_SOURCE_DIR "/tools/scripts/plot_bench.py");
  return run_python(arguments);
}

/// Kernel "steep" takes 1000 ms times the share of stored blocks, "flat" always 1 ms.
std::string write_measurement(const std::string& path) {
  std::vector<tools::CaseResult> cases;
  for (const std::uint32_t k : {1u, 100u, 10'000u}) {
    const MatrixHeader header{.n = 400, .m = 4, .num_blocks = k};
    const double steep_ms = 1000.0 * k / 10'000;
    cases.push_back(made_up_case("d" + std::to_string(k), header,
                                 {made_up_kernel("steep", header, steep_ms, k, {{"steep", 10}, {"other", 20}}),
                                  made_up_kernel("flat", header, 1, k)}));
  }
  tools::CaseResult& last = cases.back();
  last.what.compare_with = "d100";
  last.what.published_s = 8;
  last.kernels[0].e2e_s = {4};
  last.kernels[0].limit = tools::Limit{
      .ceilings = {.device = "Made-up", .copy_gb_per_s = 100, .byte_terms_t_per_s = 2}, .bytes_ms = 250, .terms_ms = 1};
  std::ofstream(path) << made_up_measurement(cases).dump();
  return path;
}

}  // namespace

TEST_CASE("plots: crossing points and tables", "[tools][plot]") {
  if (!has_python("pass")) {
    WARN("python3 is missing: plot_bench.py is not tested");
    return;
  }
  const TemporaryFolder folder;
  const std::string one = write_measurement(folder.file("one.json"));
  const std::string tables = folder.file("tables.md");
  const ProcessResult result = run_plot({one, "--no-pictures", "--markdown", tables});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  check_has(result.out, "m = 4, n = 400, elements to 2047: steep and flat cross at 0.1 % of blocks, 1 ms");
  const std::string text = content_of(tables);
  check_has(text, "| d10000 | steep | steep | 10000 | 1000 | 1000 | 1e-05 | 2 | 25 % of bytes | yes |");
  check_has(text, "| d100 | steep | 10 | 10 | 1 |  |");
  check_has(text, "| d10000 | steep | 10 | 1000 | 100 | yes |");
  check_has(text, "| d10000 | flat | d100 | 0.01 | 0.01 |");
  check_has(text, "| d10000 | steep | 4 | 2 |  |  | 8 | 2 |");
  check_has(text, "| m = 4, n = 400, elements to 2047 | steep, flat | 0.1 % | 1 |");

  const std::string two = write_measurement(folder.file("two.json"));
  const ProcessResult both = run_plot({one, two, "--no-pictures"});
  CHECK(both.exit_code == 0);
  check_has(both.out, "one: steep and two: flat cross at 0.1 % of blocks, 1 ms");

  std::ofstream(folder.file("bad.json")) << "{}";
  const ProcessResult bad = run_plot({folder.file("bad.json"), "--no-pictures"});
  CHECK(bad.exit_code == 1);
  check_has(bad.err, "bad.json: not a measurement of spmm-bench");
}

TEST_CASE("plots: pictures", "[tools][plot]") {
  if (!has_python("import matplotlib")) {
    WARN("python3 with matplotlib is missing: the pictures are not tested");
    return;
  }
  const TemporaryFolder folder;
  const ProcessResult result = run_plot({write_measurement(folder.file("one.json")), "--out", folder.file("pictures")});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  for (const char* name : {"rate.png", "density.png", "stages.png"}) {
    const std::string path = folder.file("pictures/") + name;
    check_has(result.out, path);
    CHECK(content_of(path).substr(1, 3) == "PNG");
  }
}
