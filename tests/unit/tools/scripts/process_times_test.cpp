// process_times.py on small products of this build, and the empty CUDA program that it compiles.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "test_paths.hpp"
#include "unit/tools/bench/support.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm::test;

ProcessResult run_times(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SPMM_SOURCE_DIR "/tools/scripts/process_times.py");
  return run_python(arguments);
}

}  // namespace

TEST_CASE("process_times: programs in turns, each with a new file", "[tools]") {
  if (!has_python("pass")) {
    WARN("python3 is missing: process_times.py is not tested");
    return;
  }
  const TemporaryFolder folder;
  const std::string program = SPMM_BIN_DIR "/spmm";
  const std::string json = folder.file("t.json");
  const ProcessResult run =
      run_times({"--former", program, "--work", folder.path().string(), "--json", json, program, "tiny"});
  CHECK(run.exit_code == 0);
  check_has(run.out, "tiny cpu former");
  const auto document = nlohmann::json::parse(content_of(json));
  CHECK(document["machine"]["cores"] > 0);
  const auto& rows = document["rows"];
  REQUIRE(rows.size() == 6);  // former and new of each backend
  for (const auto& row : rows) {
    INFO(row.dump());
    const bool needs_gpu = row["row"].get<std::string>().starts_with("cuda");
    CHECK((needs_gpu || row["runs"] == 7));
    if (row["runs"] > 0) CHECK(row["ms"]["whole"][0] > row["ms"]["total"][0]);
  }
  check_has(run_times({program, "S7"}).err, "S7 is no case");
}

TEST_CASE("process_times: the empty CUDA program", "[tools]") {
  if (!has_python("import shutil; assert shutil.which('cc')")) {
    WARN("python3 or cc is missing: the empty CUDA program is not compiled");
    return;
  }
  const TemporaryFolder folder;
  const std::string empty = folder.file("empty");
  CHECK(run_times({"--build-empty", empty}).exit_code == 0);
  const ProcessResult run = run_process({empty});
  CHECK((run.exit_code == 69 || nlohmann::json::parse(run.out)["total_s"] > 0));
}
