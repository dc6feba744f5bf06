// --rows and spmm-cat: ranges of block rows, and one file of them.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "support/matrices.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

ProcessResult tool(const std::string& name, Words arguments) {
  arguments.insert(arguments.begin(), std::string(SPMM_BIN_DIR) + "/" + name);
  return run_process(arguments);
}

void multiply(const Words& options, const Words& files) {
  Words words = {"-q", "--backend", "cpu"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), files.begin(), files.end());
  const ProcessResult result = spmm_command(words);
  INFO(result.err);
  REQUIRE(result.exit_code == kOk);
}

}  // namespace

TEST_CASE("files of row ranges joined have the bytes of the whole product") {
  const Workplace workplace;  // 16 block rows
  for (const Words& way : std::vector<Words>{{},
                                             {"--transpose-a", "--transpose-b"},
                                             {"--kernel", "reference", "--memory-limit", "60k", "--threads", "1"},
                                             {"--verify", "full"},
                                             {"--verify", "20", "--threads", "3"}}) {
    INFO((way.empty() ? "" : way.front()));
    multiply(way, {"a.bin", "b.bin", "whole.bin"});
    Words files;
    for (const std::string rows : {":5", "5:5", "5:6", "6:15", "15:"}) {
      Words options = way;
      options.insert(options.end(), {"--rows", rows});
      files.push_back("c" + std::to_string(files.size()));
      multiply(options, {"a.bin", "b.bin", files.back()});
      CHECK(spmm::read_header(files.back(), spmm::ElementType::u32).n == workplace.a().n);
    }
    CHECK(fs::file_size("c1") == spmm::kHeaderBytes);
    files.emplace_back("c.bin");
    const ProcessResult joined = tool("spmm-cat", files);
    INFO(joined.err);
    REQUIRE(joined.exit_code == kOk);
    CHECK(has(joined.out, "5 files, "));
    CHECK(bytes_of("c.bin") == bytes_of("whole.bin"));
  }
}

TEST_CASE("report, plan and summary say which rows") {
  const Workplace workplace;
  const ProcessResult done = spmm_command({"--report", "r.json", "--rows", "3:9", "a.bin", "b.bin", "c.bin"});
  CHECK(has(done.out, "-> C block rows 3:9, "));
  const auto report = parse_report("report", bytes_of("r.json"));
  CHECK(report["plan"]["rows"]["first"] == 3);
  CHECK(report["plan"]["rows"]["end"] == 9);
  CHECK(report["a"]["blocks"] == 60);
  const ProcessResult plan = spmm_command({"--plan", "--rows", "3:9", "a.bin", "b.bin"});
  CHECK(plan.exit_code == kOk);
  CHECK(has(plan.out, "C: block rows 3:9 alone\n"));
}

TEST_CASE("spmm-verify proves that a file has these rows of the product and no others") {
  const Workplace workplace;
  multiply({"--rows", "3:9"}, {"a.bin", "b.bin", "c.bin"});
  const ProcessResult proven = tool("spmm-verify", {"--rows", "3:9", "a.bin", "b.bin", "c.bin"});
  CHECK(proven.exit_code == kOk);
  const std::uint32_t m = spmm::read_header("a.bin").m;
  CHECK(has(proven.out, std::to_string(6 * m) + " element rows"));
  multiply({"--rows", "3:9", "--verify", "full", "--report", "r.json"}, {"a.bin", "b.bin", "proven.bin"});
  CHECK(parse_report("report", bytes_of("r.json"))["proof"]["rows"] == 6 * m);
  CHECK(tool("spmm-verify", {"a.bin", "b.bin", "c.bin"}).exit_code == kNegative);
  CHECK(tool("spmm-verify", {"--rows", "3:10", "a.bin", "b.bin", "c.bin"}).exit_code == kNegative);
  const ProcessResult more = tool("spmm-verify", {"--rows", "4:9", "a.bin", "b.bin", "c.bin"});
  CHECK(more.exit_code == kBadData);
  CHECK(has(more.err, "lies outside the block rows 4:9"));
  CHECK(tool("spmm-verify", {"--rows", "4:99", "a.bin", "b.bin", "c.bin"}).exit_code == kUsage);
  spmm::ProductMatrix wrong = spmm::read_product("c.bin");
  ++wrong.values.back();
  spmm::write_product("c.bin", wrong);
  CHECK(tool("spmm-verify", {"--rows", "3:9", "a.bin", "b.bin", "c.bin"}).exit_code == kNegative);
}

TEST_CASE("spmm-cat refuses what does not follow, and leaves the output as it was") {
  const Workplace workplace;
  multiply({"--rows", "0:6"}, {"a.bin", "b.bin", "c0"});
  multiply({"--rows", "5:16"}, {"a.bin", "b.bin", "c1"});
  multiply({"--rows", "6:16"}, {"a.bin", "b.bin", "c2"});
  spmm::ProductMatrix mixed = spmm::read_product("c2");
  std::swap(mixed.index.front(), mixed.index.back());
  spmm::write_product("mixed", mixed);
  mixed = spmm::read_product("c2");
  mixed.index[1] = mixed.index[0];
  spmm::write_product("twice", mixed);
  mixed.index[1] = {.i = 6, .j = 16};
  spmm::write_product("outside", mixed);
  mixed.n = 128;
  spmm::write_product("larger", mixed);
  write_bytes("short", bytes_of("c2").substr(0, 100));
  struct Wrong {
    Words files;
    int exit_code;
    std::string says;
  };
  const std::vector<Wrong> table = {
      {{"c0", "c1"}, kBadData, "c1, record 0 (byte offset 12): block (5, "},
      {{"c2", "c0"}, kBadData, "c0, record 0 (byte offset 12)"},
      {{"c0", "c0"}, kBadData, "give the files in the order of their block rows"},
      {{"c0", "mixed"}, kBadData, "expected blocks in the order of (i, j)"},
      {{"c0", "twice"}, kBadData, "twice, record 1 "},
      {{"c0", "outside"}, kBadData, "block index (6, 16)"},
      {{"c0", "larger"}, kBadData, "n = 64, m = 4 against n = 128, m = 4"},
      {{"c0", "a.bin"}, kBadData, "fits elements of 16 bits"},
      {{"c0", "short"}, kBadData, "the file ends at byte offset 100"},
      {{"c0", "nowhere"}, kNoInput, "nowhere"},
      {{"c0", "old.bin"}, kUsage, "the output is the same file as the input"},
      {{"c0", "./old.bin"}, kUsage, "the output is the same file as the input"},
      {{}, kUsage, "the output (OUT) is missing"},
  };
  for (const Wrong& wrong : table) {
    Words words = wrong.files;
    words.emplace_back("old.bin");
    const ProcessResult result = tool("spmm-cat", words);
    INFO((words.size() > 1 ? words[1] : "") << ": " << result.err);
    CHECK(result.exit_code == wrong.exit_code);
    CHECK(has(result.err, wrong.says));
    CHECK(bytes_of("old.bin") == kOldContent);
  }
  CHECK(tool("spmm-cat", {}).exit_code == kUsage);
  CHECK(tool("spmm-cat", {"c0", "c2", "-"}).exit_code == kUsage);
  CHECK(tool("spmm-cat", {"--no-clobber", "c0", "c2", "old.bin"}).exit_code == kCannotCreate);
  CHECK(tool("spmm-cat", {"-q", "c0", "c2", "old.bin"}).out.empty());
  multiply({}, {"a.bin", "b.bin", "whole"});
  CHECK(bytes_of("old.bin") == bytes_of("whole"));
  for (const std::string& name : names_in(".")) CHECK(name.front() != '.');  // no temporary file is left
}
