// plot_bench.py on made-up measurements: crossing points, a picture.
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
  std::ofstream(path) << made_up_measurement(cases).dump();
  return path;
}

}  // namespace

TEST_CASE("plots: crossing points", "[tools][plot]") {
  if (!has_python("pass")) {
    WARN("python3 is missing: plot_bench.py is not tested");
    return;
  }
  const TemporaryFolder folder;
  const ProcessResult result = run_plot({write_measurement(folder.file("one.json"))});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out == "m = 4, n = 400, elements to 2047: steep = flat: 0.1 % of blocks, 1 ms\n");

  std::ofstream(folder.file("bad.json")) << R"({"cases": 5})";
  const ProcessResult bad = run_plot({folder.file("bad.json")});
  CHECK(bad.exit_code == 1);
  check_has(bad.err, "bad.json: not a measurement of spmm-bench");
  std::ofstream(folder.file("none.json")) << R"({"cases": []})";
  check_has(run_plot({folder.file("none.json")}).err, "no kernel ran");
}

TEST_CASE("plots: a picture", "[tools][plot]") {
  if (!has_python("import matplotlib")) {
    WARN("python3 with matplotlib is missing: the picture is not tested");
    return;
  }
  const TemporaryFolder folder;
  const std::string picture = folder.file("density.png");
  const ProcessResult result = run_plot({write_measurement(folder.file("one.json")), "--out", picture});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  check_has(result.out, picture);
  CHECK(content_of(picture).substr(1, 3) == "PNG");
}
