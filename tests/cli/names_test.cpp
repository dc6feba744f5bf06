// Names with control characters, given to every program: none of them reaches standard output or standard error.
#include <filesystem>
#include <set>

#include "base/text.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// ESC, BEL, DEL, U+009B as UTF-8, and byte 9B alone.
const std::string kBad = "e\x1b[31m\x07\x7f\xc2\x9b\x9bz";

std::string bad(const std::string& end) {
  return kBad + end;
}

/// Runs a program of the build in the working folder.
ProcessResult run(const std::string& program, const Words& arguments) {
  Words words = {std::string(SPMM_BIN_DIR) + "/" + program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_process(words);
}

/// Whether a terminal may get the text: lines without control characters.
bool is_harmless(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\t'; });
  return spmm::printable(text) == text;
}

void check_harmless(const std::string& program, const Words& arguments, const ProcessResult& result) {
  std::string line = program;
  for (const std::string& word : arguments) line += " " + spmm::printable(word);
  INFO(line << ", exit code " << result.exit_code << "\n" << result.out << result.err);
  CHECK(result.signal == 0);
  CHECK(is_harmless(result.out));
  CHECK(is_harmless(result.err));
}

}  // namespace

TEST_CASE("no control character of a name reaches the terminal, whatever the program") {
  const Workplace workplace;
  fs::copy_file("a.bin", bad("a.bin"));
  fs::copy_file("b.bin", bad("b.bin"));
  spmm::write_matrix(bad("n8.bin"), random_matrix(8, 4, 2, 9, 3));
  write_bytes(bad("cut.bin"), bytes_of("a.bin").substr(0, 100));
  write_bytes(bad("bad.mtx"), "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 x 3\n");
  REQUIRE(run("spmm", {"-q", "--backend", "cpu", "a.bin", "b.bin", bad("c.bin")}).exit_code == 0);
  REQUIRE(run("spmm", {"-q", "--backend", "cpu", "b.bin", "a.bin", bad("other.bin")}).exit_code == 0);
  write_bytes("missing.jobs", bad("none.bin") + "\tb.bin\t" + bad("x.bin") + "\n");
  write_bytes("same.jobs", "a.bin\tb.bin\t" + bad("x.bin") + "\nb.bin\ta.bin\t" + bad("x.bin") + "\n");
  write_bytes("fails.jobs", bad("cut.bin") + "\tb.bin\t" + bad("x.bin") + "\n");
  write_bytes("words.jobs", "a.bin\tb.bin\tx.bin\t" + kBad + "=1\n");
  write_bytes(bad(".jobs"), "a.bin\tb.bin\n");
  write_bytes("suites.json", R"({"suites": {"s\u001b\u009b": [{"name": "c\u0007\u007f", "n": 8, "m": 4, "k": 2}]}})");

  struct Run {
    std::string program;
    Words arguments;
    int exit_code;
  };
  const std::vector<Run> runs = {
      {"spmm", {"-v", "--report", "-", bad("a.bin"), bad("b.bin"), bad("out.bin")}, 0},
      {"spmm", {"--plan", "--report", "-", bad("a.bin"), bad("b.bin")}, 0},
      {"spmm", {bad("none.bin"), "b.bin", "x.bin"}, 66},
      {"spmm", {bad("cut.bin"), "b.bin", "x.bin"}, 65},
      {"spmm", {bad("a.bin"), bad("n8.bin"), "x.bin"}, 65},
      {"spmm", {"a.bin", "b.bin", bad("folder/x.bin")}, 73},
      {"spmm", {"a.bin", "b.bin", bad(".csv")}, 2},
      {"spmm", {"--" + kBad, "a.bin", "b.bin", "x.bin"}, 2},
      {"spmm", {"help", kBad}, 2},
      {"spmm-gen", {bad("g.bin"), "--n", "64", "--m", "4", "--k", "3"}, 0},
      {"spmm-gen", {bad("folder/g.bin"), "--n", "64", "--m", "4", "--k", "3"}, 73},
      {"spmm-info", {bad("a.bin")}, 0},
      {"spmm-info", {"--json", bad("a.bin")}, 0},
      {"spmm-info", {bad("cut.bin")}, 65},
      {"spmm-compare", {bad("c.bin"), bad("other.bin")}, 1},
      {"spmm-compare", {bad("a.bin"), bad("c.bin")}, 1},
      {"spmm-compare", {bad("none.bin"), bad("c.bin")}, 2},
      {"spmm-convert", {"--on-overflow", "saturate", bad("c.bin"), bad("c16.bin")}, 0},
      {"spmm-convert", {bad("a.bin"), bad("a.mtx")}, 0},
      {"spmm-convert", {bad("a.mtx"), bad("again.bin")}, 0},
      {"spmm-convert", {bad("bad.mtx"), bad("x.bin")}, 65},
      {"spmm-verify", {bad("a.bin"), bad("b.bin"), bad("other.bin")}, 1},
      {"spmm-verify", {bad("a.bin"), bad("n8.bin"), bad("c.bin")}, 65},
      {"spmm-cat", {bad("c.bin"), bad("other.bin"), bad("x.bin")}, 65},
      {"spmm-batch", {"missing.jobs"}, 66},
      {"spmm-batch", {"same.jobs"}, 65},
      {"spmm-batch", {"words.jobs"}, 65},
      {"spmm-batch", {bad(".jobs")}, 65},
      {"spmm-batch", {"--backend", "cpu", "--report", "-", "fails.jobs"}, 1},
      {"spmm-bench", {"--suites", "suites.json", "--list"}, 0},
      {"spmm-bench", {"--suites", bad("none.json"), "--list"}, 66},
      {"spmm-dense", {"--json", bad("folder/x.json"), "--shape", "4x4x4"}, 73},
      {"spmm-mpi", {bad("cut.bin"), "b.bin", "x.bin"}, 65},
      {"spmm-mpi", {bad("none.bin"), "b.bin", "x.bin"}, 66},
  };
  std::set<std::string> programs;
  for (const auto& entry : fs::directory_iterator(SPMM_BIN_DIR)) programs.insert(entry.path().filename().string());
  std::set<std::string> walked;
  for (const auto& [program, arguments, exit_code] : runs) {
    if (!programs.contains(program)) continue;  // not in this build
    walked.insert(program);
    const ProcessResult result = run(program, arguments);
    check_harmless(program, arguments, result);
    CHECK(result.exit_code == exit_code);
  }
  CHECK(walked == programs);
  // Whatever else a program says of words that it does not expect.
  for (const std::string& program : programs) {
    for (const Words& arguments : {Words{kBad}, Words{kBad, kBad, kBad}, Words{"--threads", kBad, "a.bin"}}) {
      check_harmless(program, arguments, run(program, arguments));
    }
  }
}
