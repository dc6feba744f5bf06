// draw_run.py on the trace and the report of a real run, and on files that are neither.
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

ProcessResult run_draw(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SPMM_SOURCE_DIR "/tools/scripts/draw_run.py");
  return run_python(arguments);
}

}  // namespace

TEST_CASE("draw_run: files that are no run are named", "[tools][plot]") {
  if (!has_python("pass")) {
    WARN("python3 is missing: draw_run.py is not tested");
    return;
  }
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& content, const std::string& part) {
    std::ofstream(folder.file("x.json")) << content;
    const ProcessResult result = run_draw({"--out", folder.file("x.png"), folder.file("x.json")});
    CHECK(result.exit_code == 1);
    check_has(result.err, "x.json: " + part);
    CHECK(content_of(folder.file("x.png")).empty());
  };
  refuses("{", "not JSON");
  refuses("{}", "neither a trace nor a report");
  refuses("3", "neither a trace nor a report");
  refuses("[]", "holds no event");
  refuses(R"([{"ph":"X"}])", "not a trace of spmm");
  CHECK(run_draw({folder.file("none.json")}).exit_code == 1);
}

TEST_CASE("draw_run: a real run", "[tools][plot]") {
  if (!has_python("import matplotlib")) {
    WARN("python3 with matplotlib is missing: draw_run.py draws nothing");
    return;
  }
  const TemporaryFolder folder;
  const std::string a = folder.file("a");
  REQUIRE(run_tool("gen", {a, "--n", "512", "--m", "4", "--k", "2000"}).exit_code == 0);
  const std::string trace = folder.file("t.json");
  const std::string report = folder.file("r.json");
  REQUIRE(run_process({SPMM_BIN_DIR "/spmm", "-q", "--backend", "cpu", "--trace", trace, "--report", report, a, a,
                       folder.file("c")})
              .exit_code == 0);
  for (const std::vector<std::string>& files : {std::vector<std::string>{trace}, {report}, {trace, report}}) {
    const std::string picture = folder.file("run.png");
    std::vector<std::string> arguments = {"--out", picture};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const ProcessResult result = run_draw(arguments);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    check_has(result.out, picture);
    CHECK(content_of(picture).substr(1, 3) == "PNG");
    std::ofstream(picture).close();
  }
  CHECK(run_draw({trace, trace}).exit_code == 1);
}
