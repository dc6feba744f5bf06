// --transpose-a and --transpose-b on the command line: the bytes of explicitly transposed files.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("transposed operands on the command line, in little memory, verified") {
  const Workplace workplace;
  spmm::write_product("ta.bin", oracle_multiply(transposed(workplace.a()), workplace.b()));
  spmm::write_product("tb.bin", oracle_multiply(workplace.a(), transposed(workplace.b())));
  spmm::write_product("both.bin", oracle_multiply(transposed(workplace.a()), transposed(workplace.b())));
  struct Use {
    Words options;
    std::string expected;
  };
  const std::vector<Use> table = {
      {{"--transpose-a"}, "ta.bin"},
      {{"--transpose-b", "--kernel", "reference"}, "tb.bin"},
      {{"--transpose-a", "--transpose-b", "--verify", "20"}, "both.bin"},
      {{"--kernel", "reference", "--memory-limit", "60k", "--threads", "1", "--transpose-a"}, "ta.bin"},
  };
  for (const Use& use : table) {
    Words words = use.options;
    words.insert(words.end(), {"a.bin", "b.bin", "c.bin"});
    const ProcessResult result = spmm_command(words);
    INFO(use.options.front() << "\n" << result.err);
    REQUIRE(result.exit_code == kOk);
    CHECK(bytes_of("c.bin") == bytes_of(use.expected));
    CHECK(has(result.out, "A 60 blocks transposed x ") == (use.expected != "tb.bin"));
    CHECK(has(result.out, "B 70 blocks transposed -> ") == (use.expected != "ta.bin"));
  }
}

TEST_CASE("one file twice is a Gram matrix; plan and report say what is transposed") {
  const Workplace workplace;
  spmm::write_product("expected.bin", oracle_multiply(workplace.a(), transposed(workplace.a())));
  REQUIRE(spmm_command({"-q", "--report", "r.json", "--transpose-b", "a.bin", "a.bin", "c.bin"}).exit_code == kOk);
  CHECK(bytes_of("c.bin") == bytes_of("expected.bin"));
  const auto report = parse_report("report", bytes_of("r.json"));
  CHECK(report["a"]["transposed"] == false);
  CHECK(report["b"]["transposed"] == true);
  const ProcessResult plan = spmm_command({"--plan", "--transpose-a", "a.bin", "b.bin"});
  CHECK(plan.exit_code == kOk);
  CHECK(has(plan.out, "A: 60 blocks, 2.412 kB, transposed while it is read\nB: 70 blocks"));
}
