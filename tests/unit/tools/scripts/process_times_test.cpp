// process_times.py on small products of this build.
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
  const ProcessResult run = run_times({"--former", program, "--work", folder.path().string(), program, "tiny"});
  INFO(run.out << run.err);
  CHECK(run.exit_code == 0);
  for (const char* row :
       {"tiny auto former ", "tiny auto new ", "tiny cuda new ", "tiny cpu former ", "tiny cpu new "}) {
    check_has(run.out, row);
  }
  const std::size_t cpu = run.out.find("tiny cpu new");
  CHECK(run.out.find(" 7 runs cpu row-merge", cpu) < run.out.find('\n', cpu));
  check_has(run_times({program, "S7"}).err, "S7 is no case");
}
