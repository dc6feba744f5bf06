// Every documented use: the product is right, and each stream and file holds what is promised.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/visible_gpus.hpp"
#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "support/oracle.hpp"
#include "test_paths.hpp"
#include "tools/spmm/command_line.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

nlohmann::json json_of(const std::string& path) {
  return parse_report("report", bytes_of(path));
}

std::string product_bytes(const Workplace& workplace) {
  spmm::write_product("expected.bin", oracle_multiply(workplace.a(), workplace.b()));
  return bytes_of("expected.bin");
}

}  // namespace

TEST_CASE("the plain command writes the product and one summary line") {
  const Workplace workplace;
  const std::string expected = product_bytes(workplace);
  const ProcessResult result = spmm_command({"a.bin", "b.bin", "c.bin"});
  INFO(result.err);
  REQUIRE(result.exit_code == kOk);
  CHECK(bytes_of("c.bin") == expected);
  CHECK(result.err.empty());
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 1);
  for (const char* part : {"n 64, m 4", "A 60 blocks x B 70 blocks -> C ", " pairs", "pair/s", " s, "})
    CHECK(has(result.out, part));
  CHECK(names_in(".") == Words{"a.bin", "b.bin", "c.bin", "expected.bin", "old.bin"});
}

TEST_CASE("every way of asking gives the same bytes") {
  const Workplace workplace;
  const std::string expected = product_bytes(workplace);
  struct Use {
    Words arguments;
    Variables variables = {};
  };
  const std::vector<Use> table = {
      {{"--backend", "cpu", "a.bin", "b.bin", "c.bin"}},
      {{"--backend=cpu", "--kernel=row-merge", "a.bin", "b.bin", "c.bin"}},
      {{"a.bin", "b.bin", "c.bin", "--kernel", "reference"}},
      {{"a.bin", "--threads", "3", "b.bin", "c.bin"}},
      {{"--threads", "0", "--device", "-1", "--kernel", "auto", "--backend", "auto", "a.bin", "b.bin", "c.bin"}},
      {{"--memory-limit", "1G", "a.bin", "b.bin", "c.bin"}},
      {{"--force", "--durable", "--verify", "20", "a.bin", "b.bin", "c.bin"}},
      {{"--no-clobber", "a.bin", "b.bin", "c.bin"}},
      {{"--progress", "never", "-v", "a.bin", "b.bin", "c.bin"}},
      {{"--", "a.bin", "b.bin", "c.bin"}},
      {{"a.bin", "b.bin", "c.bin"}, {{"SPMM_BACKEND", "cpu"}, {"SPMM_THREADS", "2"}, {"SPMM_MEMORY_LIMIT", "1G"}}},
      {{"a.bin", "b.bin", "c.bin"}, {{"SPMM_THREADS", ""}, {"SPMM_KERNEL", "no-such-kernel"}}},
      {{"--threads", "2", "a.bin", "b.bin", "c.bin"}, {{"SPMM_THREADS", "wrong-but-not-used"}}},
      {{"./a.bin", "../" + fs::current_path().filename().string() + "/b.bin", "./c.bin"}},
      {{fs::absolute("a.bin").string(), "b.bin", fs::absolute("c.bin").string()}},
  };
  for (const Use& use : table) {
    fs::remove("c.bin");
    const ProcessResult result = spmm_command(use.arguments, use.variables);
    INFO(use.arguments.front() << " ... " << (use.variables.empty() ? "" : use.variables.front().first) << "\n"
                               << result.err);
    CHECK(result.exit_code == kOk);
    CHECK(bytes_of("c.bin") == expected);
  }
}

TEST_CASE("file names may hold spaces, commas, quotes and dashes") {
  const Workplace workplace;
  const std::string expected = product_bytes(workplace);
  fs::copy("a.bin", "a, with space.bin");
  fs::copy("b.bin", "b'\"=,,.bin");
  fs::copy("b.bin", "-b.bin");
  const ProcessResult result = spmm_command({"a, with space.bin", "b'\"=,,.bin", "c,d e.bin"});
  INFO(result.err);
  CHECK(result.exit_code == kOk);
  CHECK(bytes_of("c,d e.bin") == expected);
  CHECK(spmm_command({"--", "a.bin", "-b.bin", "-c.bin"}).exit_code == kOk);
  CHECK(bytes_of("-c.bin") == expected);
}

TEST_CASE("an old output is replaced, /dev/null works, and a link to the output stays a link") {
  const Workplace workplace;
  const std::string expected = product_bytes(workplace);
  CHECK(spmm_command({"a.bin", "b.bin", "old.bin"}).exit_code == kOk);
  CHECK(bytes_of("old.bin") == expected);
  CHECK(spmm_command({"a.bin", "b.bin", "/dev/null"}).exit_code == kOk);
  CHECK(fs::is_character_file("/dev/null"));
  write_bytes("target.bin", kOldContent);
  fs::create_symlink("target.bin", "link.bin");
  CHECK(spmm_command({"a.bin", "b.bin", "link.bin"}).exit_code == kOk);
  CHECK(fs::is_symlink("link.bin"));
  CHECK(bytes_of("target.bin") == expected);
}

TEST_CASE("-q says nothing, -v shows the plan before the work, and the stages after it") {
  Workplace workplace;
  workplace.add_bad_files();
  const ProcessResult quiet = spmm_command({"-q", "a.bin", "b.bin", "c.bin"});
  CHECK(quiet.exit_code == kOk);
  CHECK(quiet.out + quiet.err == "");
  const ProcessResult verbose = spmm_command({"--backend", "cpu", "-v", "a.bin", "b.bin", "c.bin"});
  CHECK(std::count(verbose.out.begin(), verbose.out.end(), '\n') == 1);
  CHECK(verbose.err.find("row-merge") < verbose.err.find("\nmultiply"));
  CHECK(has(verbose.err, "peak host memory"));
  const ProcessResult failed = spmm_command({"--backend", "cpu", "-v", "twice.bin", "twice.bin", "c.bin"});
  CHECK(failed.exit_code == kBadData);
  CHECK(failed.err.find("backend: cpu") < failed.err.find("spmm: error: "));
}

TEST_CASE("the peak of host memory in a report is that of the process alone") {
  const Workplace workplace;
  const std::vector<char> large(400'000'000, 1);  // a process begins with the ru_maxrss of the one that started it
  REQUIRE(large.back() == 1);
  REQUIRE(spmm_command({"--report", "r.json", "a.bin", "b.bin", "c.bin"}).exit_code == kOk);
  const auto report = nlohmann::json::parse(bytes_of("r.json"));
  CHECK(report["peak_host_bytes"].get<std::uint64_t>() > 1'000'000);
  CHECK(report["peak_host_bytes"].get<std::uint64_t>() < 300'000'000);
}

TEST_CASE("whoever reads help, version or a list may close it before its end", "[native]") {
  const Workplace workplace;
  const std::string folder = std::string(SPMM_BIN_DIR) + "/";
  for (const std::string command : {"spmm --help", "spmm --version", "spmm help", "spmm-gen --help",
                                    "spmm-batch --help", "spmm-info a.bin", "spmm --plan a.bin b.bin"}) {
    // `true` has ended, and the pipe has no reader, when the program writes.
    const ProcessResult result =
        run_process({"/bin/sh", "-c", "{ sleep 0.3; " + folder + command + " 2>message; echo $? >code; } | true"});
    INFO(command << ": " << bytes_of("message"));
    CHECK(result.exit_code == 0);
    CHECK(bytes_of("code") == "0\n");
    CHECK(bytes_of("message").empty());
  }
}

TEST_CASE("the JSON report has the numbers of the run") {
  const Workplace workplace;
  const std::string expected = product_bytes(workplace);
  const Words arguments = {"--backend", "cpu",    "--threads", "2",     "--verify", "20",
                           "--report",  "r.json", "a.bin",     "b.bin", "c.bin"};
  REQUIRE(spmm_command(arguments).exit_code == kOk);
  const nlohmann::json report = json_of("r.json");
  const spmm::MatrixHeader c = spmm::read_header("c.bin", spmm::ElementType::u32);
  CHECK(report["command"].size() == arguments.size() + 1);
  CHECK(report["a"] ==
        nlohmann::json{
            {"path", "a.bin"}, {"n", 64}, {"m", 4}, {"blocks", 60}, {"bytes", 12 + 60 * 40}, {"transposed", false}});
  CHECK(report["b"]["blocks"] == 70);
  CHECK(report["c"] ==
        nlohmann::json{
            {"path", "c.bin"}, {"n", 64}, {"m", 4}, {"blocks", c.num_blocks}, {"bytes", fs::file_size("c.bin")}});
  std::uint64_t pairs = 0;
  for (const auto& left : workplace.a().index) {
    for (const auto& right : workplace.b().index) pairs += left.j == right.i ? 1 : 0;
  }
  CHECK(report["pairs"] == pairs);
  CHECK(report["backend"] == "cpu");
  CHECK(report["kernel"] == "row-merge");
  CHECK(report["threads"] == 2);
  CHECK(report["plan"]["host_need_bytes"].get<std::uint64_t>() <=
        report["plan"]["host_limit_bytes"].get<std::uint64_t>());
  CHECK(report["verified_blocks"].get<std::uint64_t>() >= 20);
  CHECK(report["saturated_elements"] == num_saturated(oracle_multiply(workplace.a(), workplace.b())));
  CHECK(report["stages"].size() == spmm::kStageNames.size());
  CHECK(report["stages"]["read"]["bytes"] == (60 + 70) * 40);
  CHECK(report["stages"]["write"]["bytes"] == expected.size());
}

TEST_CASE("elements at the limit are in the summary line and the report, or an error that leaves the old output") {
  const Workplace workplace;
  spmm::BlockMatrix full{.n = 64, .m = 4, .index = {}, .values = {}};
  for (std::uint32_t i = 0; i < 16; ++i) {
    for (std::uint32_t j = 0; j < 16; ++j) full.index.push_back({.i = i, .j = j});
  }
  full.values.assign(64 * 64, 65535);
  spmm::write_matrix("full.bin", full);
  full.values.assign(64 * 64, 3);
  spmm::write_matrix("small.bin", full);
  const Words to_c = {"--backend", "cpu", "--report", "r.json", "full.bin"};
  const auto run = [&](Words more, const Variables& variables = {}) {
    more.insert(more.begin(), to_c.begin(), to_c.end());
    return spmm_command(more, variables);
  };
  const ProcessResult saturated = run({"full.bin", "c.bin"});
  CHECK(has(saturated.out, ", 4,096 elements at the limit 4294967295\n"));
  CHECK(json_of("r.json")["saturated_elements"] == 4096);
  const ProcessResult proven = run({"--verify", "full", "full.bin", "c.bin"});
  CHECK(has(proven.out, ", 4,096 elements at the limit 4294967295, every row proven"));
  CHECK(json_of("r.json")["proof"]["saturated_elements"] == 4096);
  const ProcessResult small = run({"--on-saturation", "error", "small.bin", "c.bin"});
  CHECK(small.exit_code == kOk);
  CHECK_FALSE(has(small.out, "limit"));
  CHECK(json_of("r.json")["saturated_elements"] == 0);

  const std::string old = bytes_of("c.bin");
  fs::remove("r.json");
  for (Words more : {Words{}, {"--transpose-a"}, {"--verify", "full"}}) {
    more.insert(more.end(), {"--on-saturation", "error", "full.bin", "c.bin"});
    const ProcessResult refused = run(more);
    INFO(refused.err);
    CHECK(refused.exit_code == kSaturated);
    CHECK(has(refused.err, "spmm: error: c.bin: 4096 elements"));
    CHECK(has(refused.err, "--on-saturation report"));
    CHECK(has(refused.err, "row 0, column 0"));
  }
  CHECK(bytes_of("c.bin") == old);
  CHECK(names_in(".") == Words{"a.bin", "b.bin", "c.bin", "full.bin", "old.bin", "small.bin"});
}

TEST_CASE("the report goes to standard output, over an old one, or nowhere after a failure") {
  const Workplace workplace;
  const ProcessResult both = spmm_command({"--report", "-", "a.bin", "b.bin", "c.bin"});
  CHECK(parse_report("report", both.out)["c"]["path"] == "c.bin");
  CHECK(has(both.err, "pair/s"));
  write_bytes("r.json", "old");
  CHECK(spmm_command({"--report", "r.json", "a.bin", "b.bin", "c.bin"}).exit_code == kOk);
  CHECK(json_of("r.json")["b"]["path"] == "b.bin");
  write_bytes("r.json", "old");
  CHECK(spmm_command({"--report", "r.json", "a.bin", "missing.bin", "c.bin"}).exit_code == kNoInput);
  CHECK(bytes_of("r.json") == "old");
}

TEST_CASE("--plan prints what would run and runs nothing") {
  const Workplace workplace;
  const ProcessResult plan = spmm_command({"--backend", "cpu", "--threads", "2", "--plan", "a.bin", "b.bin"});
  INFO(plan.err);
  CHECK(plan.exit_code == kOk);
  for (const char* part : {"A: 60 blocks", "B: 70 blocks", "backend: cpu", "row-merge", "threads: 2"})
    CHECK(has(plan.out, part));
  CHECK(spmm_command({"--plan", "a.bin", "b.bin", "c.bin"}).exit_code == kOk);
  CHECK(spmm_command({"--report", "p.json", "--plan", "a.bin", "b.bin"}).exit_code == kOk);
  CHECK(parse_report("plan", bytes_of("p.json"))["schema"] == 3);
  CHECK(parse_report("plan", bytes_of("p.json"))["plan"]["expected_pairs"].get<double>() > 0);
  CHECK(names_in(".") == Words{"a.bin", "b.bin", "old.bin", "p.json"});
}

TEST_CASE("--verify full proves every row, and names the key that --verify-seed gives") {
  const Workplace workplace;
  const ProcessResult fresh = spmm_command({"--verify", "full", "--report", "r.json", "a.bin", "b.bin", "c.bin"});
  INFO(fresh.err);
  CHECK(fresh.exit_code == kOk);
  CHECK(has(fresh.out, "every row proven"));
  CHECK_FALSE(has(fresh.out, "key"));
  CHECK(!json_of("r.json")["proof"].contains("key"));
  CHECK(json_of("r.json")["proof"]["rows"] == 64);
  const ProcessResult again = spmm_command({"--verify", "full", "--verify-seed", "77", "a.bin", "b.bin", "d.bin"});
  CHECK(again.exit_code == kOk);
  CHECK(has(again.out, "(key 77)"));
  CHECK(bytes_of("c.bin") == bytes_of("d.bin"));
  const ProcessResult plan = spmm_command({"--plan", "--verify", "full", "a.bin", "b.bin"});
  CHECK(plan.exit_code == kOk);
}

TEST_CASE("a CUDA run without a usable device says so") {
  const Workplace workplace;
  for (const Words& arguments : {Words{"--backend", "cuda", "a.bin", "b.bin", "old.bin"},
                                 Words{"--kernel", "two-pointer", "a.bin", "b.bin", "old.bin"}}) {
    const ProcessResult result = spmm_command(arguments, {{"CUDA_VISIBLE_DEVICES", ""}});
    INFO(result.err);
    CHECK(result.exit_code == kUnavailable);
    CHECK(has(result.err, "--backend cpu"));
    const bool has_cuda = spmm::has_backend(spmm::Backend::cuda);
    CHECK(has(result.err, "no NVIDIA driver") == (has_cuda && !spmm::has_gpu_driver()));
    CHECK(bytes_of("old.bin") == kOldContent);
  }
}

TEST_CASE("a program without CUDA names the command that builds it for a GPU which is there") {
  CHECK(has(unused_gpus_warning(false, 1), "demo.sh --cuda"));
  CHECK(unused_gpus_warning(false, 0).empty());
  CHECK(unused_gpus_warning(true, 1).empty());
}
