// spmm-bench: the quick suite measured and checked, its JSON, the comparison of two measurements, refusals.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/run.hpp"
#include "tools/bench/suites.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Json = nlohmann::ordered_json;

const std::string kSuiteFile = SPMM_SOURCE_DIR "/data/suites.json";

ProcessResult run_bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--suites", kSuiteFile});
  return run_tool("bench", arguments);
}

/// A measurement of one case of the quick suite.
Json measured(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--case", "quick-m8", "--backend", "cpu",    "--runs",
                                        "2",      "--json",   "-",         "--work", folder.file("work")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProcessResult result = run_bench(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return parse_report("bench", result.out);
}

std::string write_text(const std::string& path, const std::string& content) {
  std::ofstream(path) << content;
  return path;
}

void check_spread(const Json& spread) {
  CHECK(spread["min"] > 0);
  CHECK(spread["min"] <= spread["median"]);
  CHECK(spread["median"] <= spread["max"]);
}

/// Sets the times of a figure of the first kernel.
Json with_times(Json measurement, const std::string& figure, double median, double min, double max) {
  measurement["cases"][0]["kernels"][0][figure] = {{"median", median}, {"min", min}, {"max", max}};
  return measurement;
}

/// A measurement whose first kernel took 10 (9 to 11) by every figure.
Json level(Json measurement) {
  for (const char* figure : {"multiply_ms", "device_ms", "total_s"})
    measurement = with_times(measurement, figure, 10, 9, 11);
  return measurement;
}

}  // namespace

TEST_CASE("bench: the quick suite on the CPU", "[tools][bench]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("quick.json");
  const ProcessResult result = run_bench({"--suite", "quick", "--backend", "cpu", "--kernel", "all,reference", "--runs",
                                          "3", "--json", file, "--work", folder.file("work")});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find("| quick-m8 | row-merge | row-merge |") != std::string::npos);
  const Json json = tools::read_json(file);
  CHECK(json["schema"] == 1);
  CHECK(json["program"] == "spmm-bench");
  CHECK(json["version"].get<std::string>().find("spmm ") == 0);
  CHECK(json["version"].get<std::string>().find("(git " + json["revision"].get<std::string>() + ")") !=
        std::string::npos);
  CHECK(json["machine"]["cores"] > 0);
  CHECK(json["machine"]["memory_bytes"] > 1'000'000);
  CHECK(json["machine"].contains("cpu"));
  CHECK(json["runs"] == 3);
  CHECK(json["command"].size() == 15);
  CHECK(json["date"].get<std::string>().size() == 20);
  CHECK_FALSE(json["device"].get<std::string>().empty());
  CHECK(json["note"].get<std::string>().find("cold") != std::string::npos);
  REQUIRE(json["cases"].size() == 5);
  for (const Json& one : json["cases"]) {
    INFO(one["name"]);
    CHECK(one["yardstick"] == "row-merge");
    CHECK(one["baseline"]["kernel"] == "row-merge");
    CHECK(one["baseline"]["total_s"] > 0);
    REQUIRE(one["kernels"].size() >= 3);  // auto, all of this build, reference
    for (const Json& kernel : one["kernels"]) {
      CHECK(kernel["status"] == "ok");
      CHECK(kernel["validated"] == true);
      CHECK(kernel["backend"] == "cpu");
      CHECK(kernel["pairs"] > 0);
      for (const char* figure : {"device_ms", "multiply_ms", "total_s"}) check_spread(kernel[figure]);
      CHECK(kernel["stages_ms"]["multiply"] == kernel["multiply_ms"]);
      check_spread(kernel["stages_ms"]["read"]);
      CHECK(kernel["file_total_s"] > 0);
      CHECK(kernel["gpairs_per_s_multiply"] > 0);
    }
    CHECK(one["kernels"][0]["kernel"] == "auto");
    CHECK(one["kernels"][0]["chosen"] == "row-merge");
    CHECK(one["kernels"].back()["chosen"] == "reference");
  }
  // Inputs stay for the next time, outputs do not.
  std::size_t num_files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.file("work"))) ++num_files;
  CHECK(num_files == 2 * json["cases"].size());
}

TEST_CASE("bench: inputs are reused unless the header is another", "[tools][bench]") {
  const TemporaryFolder folder;
  const tools::BenchCase one = tools::select_cases(tools::load_suites(kSuiteFile), {}, {"quick-m5"}).at(0);
  tools::BenchOptions options;
  options.work = folder.path();
  const std::string a = tools::make_input(one, 1, options);
  CHECK(read_header(a) == MatrixHeader{.n = 200, .m = 5, .num_blocks = 300});
  const BlockMatrix first = read_matrix(a);
  BlockMatrix other = first;
  other.values[0] ^= 1;
  write_matrix(a, other);
  CHECK(tools::make_input(one, 1, options) == a);
  CHECK(read_matrix(a) == other);
  std::filesystem::resize_file(a, 100);
  CHECK(tools::make_input(one, 1, options) == a);
  CHECK(read_matrix(a) == first);
  const std::string b = tools::make_input(one, 2, options);
  CHECK(b != a);
  CHECK(read_matrix(b) != first);
}

TEST_CASE("bench: what cannot run is refused, what is slow runs once", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measured(folder, {"--kernel", "two-pointer,row-merge", "--filter-seconds", "0"});
  const Json& kernels = json["cases"][0]["kernels"];
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0]["status"] == "refused");
  CHECK(kernels[0]["reason"].get<std::string>().find("belongs to backend cuda") != std::string::npos);
  CHECK(kernels[1]["status"] == "ok");
  CHECK(kernels[1]["total_s"]["min"] == kernels[1]["total_s"]["max"]);

  const ProcessResult none = run_bench({"--case", "quick-m8", "--backend", "cpu", "--kernel", "two-pointer"});
  CHECK(none.exit_code == 69);
}

TEST_CASE("bench: processes are timed before this program has run a product, which may start CUDA", "[tools][bench]") {
  const TemporaryFolder folder;
  const std::filesystem::path programs = folder.path() / "programs";
  std::filesystem::create_directory(programs);
  std::filesystem::copy_file(SPMM_BIN_DIR "/spmm-bench", programs / "spmm-bench");
  std::filesystem::create_symlink(SPMM_BIN_DIR "/../libspmm.so.1",
                                  folder.path() / "libspmm.so.1");  // where the copy looks
  write_text((programs / "spmm").string(), "#!/bin/sh\nls \"$(dirname \"$3\")\" >> \"$(dirname \"$0\")/seen\"\n");
  std::filesystem::permissions(programs / "spmm", std::filesystem::perms::owner_all);
  const ProcessResult result =
      run_process({programs / "spmm-bench", "--suites", kSuiteFile, "--case", "quick-m8,quick-m5", "--backend", "cpu",
                   "--runs", "2", "--e2e", "--work", folder.file("work"), "--json", "-"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  check_spread(parse_report("bench", result.out)["cases"][1]["kernels"][0]["e2e_s"]);
  std::ifstream in(programs / "seen");
  const std::string seen{std::istreambuf_iterator<char>(in), {}};
  CHECK(seen.find("-seed1.bin") != std::string::npos);
  CHECK(seen.find("baseline-") == std::string::npos);  // what the first product in this program writes
}

TEST_CASE("bench: another output is a difference", "[tools][bench]") {
  const TemporaryFolder folder;
  const ProductMatrix right = read_product(golden("c.bin"));
  const auto difference = [&](const ProductMatrix& found) {
    write_product(folder.file("found.bin"), found);
    return tools::result_difference(golden("c.bin"), folder.file("found.bin"));
  };
  CHECK(difference(right).empty());
  ProductMatrix wrong = right;
  wrong.values[4] = 1;
  CHECK(difference(wrong) == "1 elements differ; 0 blocks are missing, 0 are too many");
  wrong = right;
  wrong.index[2] = {.i = 2, .j = 2};
  CHECK(difference(wrong).find("1 blocks are missing, 1 are too many") != std::string::npos);
  wrong = right;
  std::swap(wrong.index[0], wrong.index[1]);
  CHECK(difference(wrong).find("not a result: ") == 0);
  std::filesystem::resize_file(folder.file("found.bin"), 50);
  CHECK(tools::result_difference(golden("c.bin"), folder.file("found.bin")).find("not a result: ") == 0);

  tools::CaseResult result;
  result.what = tools::select_cases(tools::load_suites(kSuiteFile), {}, {"quick-m8"}).at(0);
  tools::KernelResult kernel;
  kernel.kernel = "wrong";
  kernel.runs = {Report{}};
  kernel.difference = "3 elements differ";
  CHECK_FALSE(kernel.validated());
  CHECK(tools::table_row(result, kernel).find("| NO: 3 elements differ |") != std::string::npos);
  result.kernels.push_back(kernel);
  CHECK(tools::case_result_json(result)["kernels"][0]["validated"] == false);
}

TEST_CASE("bench: device time is that of five stages", "[tools][bench]") {
  Report report;
  for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s].s = static_cast<double>(1u << s);
  CHECK(tools::device_ms(report) == 1000.0 * (16 + 32 + 64 + 128 + 256));  // build, count, plan, multiply, compact
}

TEST_CASE("bench: two measurements compared", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json before = level(measured(folder, {}));
  const std::string old_file = write_text(folder.file("old.json"), before.dump());
  const auto diff = [&](const Json& after, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--diff", old_file, write_text(folder.file("new.json"), after.dump())};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_tool("bench", arguments);
  };
  CHECK(diff(before).exit_code == 0);
  for (const char* figure : {"multiply_ms", "device_ms", "total_s"}) {
    const ProcessResult slower = diff(with_times(before, figure, 12, 11.5, 13));
    CHECK(slower.exit_code == 1);
    CHECK(slower.out.find("1.200 (10 -> 12) SLOWER") != std::string::npos);
  }
  const Json slower = with_times(before, "total_s", 12, 11.5, 13);
  CHECK(diff(slower, {"--tolerance", "1.3"}).exit_code == 0);
  CHECK(diff(with_times(before, "total_s", 12, 10.5, 13)).exit_code == 0);  // within the spread
  CHECK(diff(with_times(before, "total_s", 5, 4, 6)).exit_code == 0);

  Json wrong = before;
  wrong["cases"][0]["kernels"][0]["validated"] = false;
  CHECK(diff(wrong).exit_code == 1);
  Json refused = before;
  refused["cases"][0]["kernels"][0] = {{"kernel", "auto"}, {"status", "refused"}, {"reason", "memory"}};
  CHECK(diff(refused).exit_code == 1);
  Json skipped = before;
  skipped["cases"][0]["kernels"][0] = {{"kernel", "auto"}, {"status", "skipped"}, {"reason", "slow"}};
  CHECK(diff(skipped).exit_code == 1);
  CHECK(diff(skipped).out.find("ok -> skipped") != std::string::npos);
  Json other = before;
  other["cases"][0]["name"] = "another";
  CHECK(diff(other).exit_code == 2);
  CHECK(diff(Json::object()).exit_code == 65);
  CHECK(run_tool("bench", {"--diff", old_file}).exit_code == 2);
  CHECK(run_tool("bench", {"--diff", old_file, folder.file("none.json")}).exit_code == 66);
  CHECK(run_tool("bench", {"--diff", old_file, kSuiteFile, "--tolerance", "0.5"}).exit_code == 2);
}

TEST_CASE("bench: mistakes on the command line", "[tools][bench]") {
  CHECK(run_bench({}).exit_code == 2);
  const ProcessResult unknown = run_bench({"--case", "no-such-case"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("unknown case \"no-such-case\"") != std::string::npos);
  const std::vector<std::vector<std::string>> bad = {
      {"--suite", "no-such-suite"},
      {"--case", "quick-m8,"},
      {"--case", "quick-m8", "--kernel", "fastest"},
      {"--case", "quick-m8", "--backend", "tpu"},
      {"--case", "quick-m8", "--runs", "0"},
      {"--case", "quick-m8", "--filter-seconds", "soon"},
      {"--case", "quick-m8", "--max-seconds", "-1"},
      {"--case", "quick-m8", "stray.json"},
      {"--no-such-option"},
  };
  for (const auto& arguments : bad) {
    INFO(arguments.back());
    CHECK(run_bench(arguments).exit_code == 2);
  }
  const TemporaryFolder folder;
  CHECK(run_bench({"--case", "quick-m8", "--json", folder.file("none/x.json")}).exit_code == 73);
  const std::string suites = folder.file("suites.json");
  std::filesystem::copy_file(kSuiteFile, suites);
  const ProcessResult over =
      run_tool("bench", {"--case", "quick-m8", "--kernel", "reference", "--suites", suites, "--json", suites});
  CHECK(over.exit_code == 2);
  CHECK(over.err.find("the output is the same file as the input") != std::string::npos);
  CHECK(content_of(suites) == content_of(kSuiteFile));
}

TEST_CASE("bench: suites are data", "[tools][bench]") {
  const std::vector<tools::BenchSuite> suites = tools::load_suites(kSuiteFile);
  std::vector<std::string> names;
  for (const auto& suite : suites) {
    names.push_back(suite.name);
    // Every pattern has room for its blocks (graphs are drawn, which takes a while).
    for (const auto& one : suite.cases) {
      if (one.pattern == tools::PatternKind::rmat && one.header.num_blocks > 500'000) continue;
      INFO(one.name);
      CHECK_NOTHROW(tools::make_pattern(one.pattern, one.header.blocks_per_side(), one.header.num_blocks,
                                        one.pattern_options(1)));
    }
  }
  CHECK(names == std::vector<std::string>{"S", "P", "course", "shapes", "values", "shapes-fit", "sides", "all-sides",
                                          "density-m4", "density-m8", "density-m16", "quick", "patterns",
                                          "cpu-patterns", "cpu-values", "cpu-limits"});
  const auto chosen = tools::select_cases(suites, {"P", "P"}, {"S3", "P1"});
  REQUIRE(chosen.size() == 6);
  CHECK(chosen[0].name == "P1");
  CHECK(chosen[5].header == MatrixHeader{.n = 32768, .m = 8, .num_blocks = 8800000});
  CHECK(chosen[5].max_value == 2047);
  const auto pair = tools::select_cases(suites, {}, {"m16"});  // its partner comes first
  REQUIRE(pair.size() == 2);
  CHECK(pair[0].name == "S1");
  CHECK(pair[1].compare_with == "S1");

  const TemporaryFolder folder;
  const auto refused = [&](const std::string& cases) {
    const std::string file = write_text(folder.file("suites.json"), R"({"suites": {"x": [)" + cases + "]}}");
    return run_tool("bench", {"--list", "--suites", file}).exit_code;
  };
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4})") == 0);
  CHECK(refused(R"({"name": "a", "n": 9, "m": 4, "k": 4})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 5})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4, "patern": "uniform"})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4, "pattern": "round"})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4, "max_value": 65536})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4}, {"name": "a", "n": 8, "m": 4, "k": 3})") == 65);
  CHECK(
      refused(R"({"name": "a", "n": 8, "m": 4, "k": 4, "compare_with": "b"}, {"name": "b", "n": 8, "m": 4, "k": 3})") ==
      0);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4, "memory_share": 0})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4, "compare_with": "b"})") == 65);
  CHECK(refused(R"({"name": "a", "n": 8, "m": 4, "k": 4, "compare_with": "a"})") == 65);
  CHECK(refused("nonsense") == 65);
}

TEST_CASE("bench: checksums instead of files", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measured(folder, {"--checksum", "--kernel", "all,reference", "--baseline", "reference"});
  const Json& one = json["cases"][0];
  CHECK(one["compared_by"] == "checksum");
  CHECK(one["yardstick"] == "reference");
  for (const Json& kernel : one["kernels"]) {
    CHECK(kernel["validated"] == true);
    CHECK_FALSE(kernel.contains("file_total_s"));
  }
  CHECK(run_bench({"--case", "quick-m8", "--baseline", "nothing"}).exit_code == 2);
}

TEST_CASE("bench: within a memory limit files are compared, which are gone afterwards", "[tools][bench]") {
  const TemporaryFolder folder;
  const std::string suites =
      write_text(folder.file("suites.json"),
                 R"({"suites": {"x": [{"name": "limited", "n": 4096, "m": 8, "k": 50000, "memory_share": 0.9}]}})");
  const std::string work = folder.file("work");
  const ProcessResult result = run_tool("bench", {"--suites", suites, "--suite", "x", "--backend", "cpu", "--runs", "1",
                                                  "--checksum", "--work", work, "--json", "-"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json one = parse_report("bench", result.out)["cases"][0];
  CHECK(one["compared_by"] == "file");
  CHECK(one["kernels"][0]["validated"] == true);
  const std::filesystem::directory_iterator left(work);
  CHECK(std::distance(begin(left), end(left)) == 2);  // the operands
}

TEST_CASE("bench: all sides, each beside the side that it is padded to", "[tools][bench]") {
  const auto cases = tools::select_cases(tools::load_suites(kSuiteFile), {"all-sides"}, {});
  std::vector<bool> seen(kMaxBlockDim + 1);
  for (const tools::BenchCase& one : cases) {
    INFO(one.name);
    seen.at(one.header.m) = true;
    if (!one.compare_with) continue;
    const auto partner = std::find_if(cases.begin(), cases.end(),
                                      [&](const tools::BenchCase& other) { return other.name == *one.compare_with; });
    REQUIRE(partner != cases.end());
    CHECK(partner->header.m > one.header.m);
    CHECK(partner->header.blocks_per_side() == one.header.blocks_per_side());
    CHECK(partner->header.num_blocks == one.header.num_blocks);
  }
  CHECK(std::count(seen.begin(), seen.end(), true) == 64);
}

TEST_CASE("bench: another kernel is the baseline, partners are left out", "[tools][bench]") {
  Plan plan;
  plan.backend = Backend::cuda;
  plan.kernel = "rows";
  CHECK(tools::other_kernels(plan) == std::vector<std::string>{"row-rank", "two-pointer"});
  plan.kernel = "row-rank";
  CHECK(tools::other_kernels(plan).front() == "rows");
  const TemporaryFolder folder;
  const auto baseline = measured(folder, {"--baseline", "other"})["cases"][0]["yardstick"].get<std::string>();
  CHECK(baseline == "row-merge");
  const auto suites = tools::load_suites(kSuiteFile);
  CHECK(tools::select_cases(suites, {}, {"m16"}, false).size() == 1);
  CHECK(tools::select_cases(suites, {"all-sides"}, {}, false).size() == 64);
}
