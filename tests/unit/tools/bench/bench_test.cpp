// spmm-bench: cases measured and checked, its JSON, limits of time, the comparison of two measurements, refusals.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"
#include "tools/bench/bench.hpp"
#include "tools/bench/checksum.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

const std::string kSuiteFile = SPMM_SOURCE_DIR "/data/suites.json";

constexpr const char* kOwnSuites = R"({"suites": {"x": [
  {"name": "slow", "n": 2048, "m": 8, "k": 40000},
  {"name": "limited", "n": 4096, "m": 8, "k": 50000, "memory_share": 0.9, "compare_with": "slow"}
]}})";

std::string write_text(const std::string& path, const std::string& content) {
  std::ofstream(path) << content;
  return path;
}

ProcessResult run_bench(Words arguments, const std::string& suites = kSuiteFile) {
  arguments.insert(arguments.end(), {"--suites", suites});
  return run_tool("bench", arguments);
}

/// A measurement on the CPU.
Json measured(const TemporaryFolder& folder, Words arguments, int exit_code = 0) {
  arguments.insert(arguments.end(), {"--backend", "cpu", "--runs", "2", "--json", "-", "--work", folder.file("work")});
  const bool is_quick = std::find(arguments.begin(), arguments.end(), "quick-m8") != arguments.end();
  const ProcessResult result =
      run_bench(arguments, is_quick ? kSuiteFile : write_text(folder.file("own.json"), kOwnSuites));
  INFO(result.err);
  REQUIRE(result.exit_code == exit_code);
  return parse_report("bench", result.out);
}

void check_spread(const Json& spread) {
  CHECK(spread["min"] > 0);
  CHECK(spread["min"] <= spread["median"]);
  CHECK(spread["median"] <= spread["max"]);
}

std::ptrdiff_t num_files_in(const std::string& folder) {
  const std::filesystem::directory_iterator files(folder);
  return std::distance(begin(files), end(files));
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
  const Json json = parse_report("bench", bytes_of(file));
  CHECK(json["version"].get<std::string>().find("(git " + json["revision"].get<std::string>() + ")") !=
        std::string::npos);
  CHECK(json["machine"]["memory_bytes"] > 1'000'000);
  CHECK(json["command"].size() == 15);
  CHECK(json["date"].get<std::string>().size() == 20);
  REQUIRE(json["cases"].size() == 5);
  for (const Json& one : json["cases"]) {
    INFO(one["name"]);
    CHECK(one["yardstick"] == "row-merge");
    REQUIRE(one["kernels"].size() >= 3);  // auto, all of this build, reference
    for (const Json& kernel : one["kernels"]) {
      CHECK(kernel["status"] == "ok");
      CHECK(kernel["validated"] == true);
      CHECK(kernel["pairs"] > 0);
      for (const char* figure : {"device_ms", "multiply_ms", "total_s"}) check_spread(kernel[figure]);
      CHECK(kernel["stages_ms"]["multiply"] == kernel["multiply_ms"]);
    }
    CHECK(one["kernels"][0]["chosen"] == "row-merge");
    CHECK(one["kernels"].back()["chosen"] == "reference");
  }
  CHECK(num_files_in(folder.file("work")) == 10);  // inputs stay for the next time
}

TEST_CASE("bench: inputs are reused unless the header is another", "[tools][bench]") {
  const TemporaryFolder folder;
  const tools::BenchCase one = tools::select_cases(tools::load_suites(kSuiteFile), {}, {"quick-m5"}).at(0);
  tools::BenchOptions options;
  options.work = folder.path();
  const std::string a = tools::make_input(one, 1, options);
  const BlockMatrix first = read_matrix(a);
  BlockMatrix other = first;
  other.values[0] ^= 1;
  write_matrix(a, other);
  CHECK(tools::make_input(one, 1, options) == a);
  CHECK(read_matrix(a) == other);
  std::filesystem::resize_file(a, 100);
  CHECK(tools::make_input(one, 1, options) == a);
  CHECK(read_matrix(a) == first);
  CHECK(read_matrix(tools::make_input(one, 2, options)) != first);
}

TEST_CASE("bench: what cannot run is refused, what takes too long is skipped or runs once", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json refused = measured(folder, {"--case", "quick-m8", "--kernel", "two-pointer,row-merge"});
  CHECK(refused["cases"][0]["kernels"][0]["status"] == "refused");
  CHECK(refused["cases"][0]["kernels"][1]["validated"] == true);
  constexpr int kNothingRan = 69;
  const Json slow = measured(folder, {"--case", "slow", "--kernel", "reference", "--max-seconds", "1.5"}, kNothingRan);
  CHECK(slow["cases"][0]["kernels"][0]["status"] == "skipped");
  const Json fast = measured(folder, {"--case", "quick-m8", "--max-seconds", "1000"});
  CHECK(fast["cases"][0]["kernels"][0]["total_s"]["min"] < fast["cases"][0]["kernels"][0]["total_s"]["max"]);
}

TEST_CASE("bench: within a memory limit results are files, which are gone afterwards", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json one = measured(folder, {"--case", "limited", "--kernel", "auto,reference"})["cases"][0];
  CHECK(one["memory_share"] == 0.9);
  CHECK(one["kernels"][0]["validated"] == true);
  CHECK(one["kernels"][1]["validated"] == true);
  CHECK(num_files_in(folder.file("work")) == 2);  // the operands
}

TEST_CASE("bench: processes are timed before this program has run a product, which may start CUDA", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measured(folder, {"--case", "quick-m8", "--e2e"});
  check_spread(json["cases"][0]["kernels"][0]["e2e_s"]);
  CHECK(json["cases"][0]["kernels"][0]["e2e_peak_resident_bytes"] > 1'000'000);
  CHECK(num_files_in(folder.file("work")) == 2);

  const std::filesystem::path programs = folder.path() / "programs";
  std::filesystem::create_directory(programs);
  std::filesystem::copy_file(SPMM_BIN_DIR "/spmm-bench", programs / "spmm-bench");
  std::filesystem::create_symlink(SPMM_BIN_DIR "/../libspmm.so.1",
                                  folder.path() / "libspmm.so.1");  // where the copy looks
  write_text((programs / "spmm").string(), "#!/bin/sh\ntest ! -e \"$(dirname \"$0\")/quick.json\" || exit 9\n");
  std::filesystem::permissions(programs / "spmm", std::filesystem::perms::owner_all);
  const std::string file = (programs / "quick.json").string();
  const ProcessResult result =
      run_process({programs / "spmm-bench", "--suites", kSuiteFile, "--case", "quick-m8,quick-m5", "--backend", "cpu",
                   "--runs", "2", "--e2e", "--work", folder.file("other"), "--json", file});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json both = parse_report("bench", bytes_of(file));
  for (const Json& one : both["cases"]) check_spread(one["kernels"][0]["e2e_s"]);
}

TEST_CASE("bench: another result is a difference in table and JSON", "[tools][bench]") {
  tools::CaseResult result;
  result.what = tools::select_cases(tools::load_suites(kSuiteFile), {}, {"quick-m8"}).at(0);
  tools::KernelResult& kernel = result.kernels.emplace_back();
  kernel.kernel = "wrong";
  kernel.runs = {Report{}};
  kernel.difference = "the checksums differ";
  kernel.processes.failure = "exit code 71";
  CHECK_FALSE(kernel.validated());
  CHECK(tools::table_row(result, kernel).find("| failed | NO: the checksums differ |") != std::string::npos);
  CHECK(tools::case_result_json(result)["kernels"][0]["validated"] == false);

  Report report;
  for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s].s = static_cast<double>(1u << s);
  CHECK(tools::device_ms(report) == 1000.0 * (16 + 32 + 64 + 128 + 256));  // build, count, plan, multiply, compact
}

TEST_CASE("bench: checksums are the same for every cut, others for every change", "[tools][bench]") {
  BlockMatrix a{.n = 4, .m = 2, .index = {{1, 1}, {0, 1}, {0, 0}}, .values = {3, 0, 0, 0, 5, 6, 0, 8, 1, 0, 0, 2}};
  const auto checksum_of = [&](std::size_t records_at_once) {
    const ProductMatrix c = Engine().multiply(a, a);
    const std::size_t bytes = output_record_bytes(c.m);
    std::vector<std::byte> records(c.index.size() * bytes);
    for (std::size_t b = 0; b < c.index.size(); ++b) {
      std::memcpy(&records[b * bytes], &c.index[b], sizeof(BlockIndex));
      std::memcpy(&records[b * bytes + sizeof(BlockIndex)], c.block(b), bytes - sizeof(BlockIndex));
    }
    tools::ChecksumSink sink(c.m, 2);
    for (std::size_t b = 0; b < c.index.size(); b += records_at_once) {
      const std::size_t count = std::min(records_at_once, c.index.size() - b);
      sink.write(b, std::span(records).subspan(b * bytes, count * bytes), {});
    }
    sink.finish(c.header());
    return sink.checksum();
  };
  const tools::ResultChecksum whole = checksum_of(100);
  CHECK(whole.num_blocks == 3);
  CHECK(checksum_of(1) == whole);
  CHECK(checksum_of(2) == whole);
  a.values[0] = 4;
  CHECK_FALSE(checksum_of(100) == whole);
  tools::ChecksumSink sink(2, 1);
  CHECK_THROWS_AS(sink.finish({.n = 4, .m = 2, .num_blocks = 1}), IoError);
}

TEST_CASE("bench: two measurements compared", "[tools][bench]") {
  const TemporaryFolder folder;
  const auto with_times = [](Json measurement, const std::string& figure, double median, double min, double max) {
    measurement["cases"][0]["kernels"][0][figure] = {{"median", median}, {"min", min}, {"max", max}};
    return measurement;
  };
  Json before = measured(folder, {"--case", "quick-m8"});
  for (const char* figure : {"multiply_ms", "device_ms", "total_s"}) before = with_times(before, figure, 10, 9, 11);
  const std::string old_file = write_text(folder.file("old.json"), before.dump());
  const auto diff = [&](const Json& after, const Words& more = {}) {
    Words arguments = {"--diff", old_file, write_text(folder.file("new.json"), after.dump())};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_tool("bench", arguments);
  };
  CHECK(diff(before).exit_code == 0);
  for (const char* figure : {"multiply_ms", "device_ms", "total_s"}) {
    const ProcessResult slower = diff(with_times(before, figure, 12, 11.5, 13));
    CHECK(slower.exit_code == 1);
    CHECK(slower.out.find("1.200 (10 -> 12) SLOWER") != std::string::npos);
  }
  CHECK(diff(with_times(before, "total_s", 12, 11.5, 13), {"--tolerance", "1.3"}).exit_code == 0);
  CHECK(diff(with_times(before, "total_s", 12, 10.5, 13)).exit_code == 0);  // within the spread
  Json wrong = before;
  wrong["cases"][0]["kernels"][0]["validated"] = false;
  CHECK(diff(wrong).exit_code == 1);
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
}

TEST_CASE("bench: mistakes on the command line", "[tools][bench]") {
  const std::vector<Words> bad = {
      {},
      {"--case", "no-such-case"},
      {"--suite", "no-such-suite"},
      {"--case", "quick-m8,"},
      {"--case", "quick-m8", "--kernel", "fastest"},
      {"--case", "quick-m8", "--backend", "tpu"},
      {"--case", "quick-m8", "--runs", "0"},
      {"--case", "quick-m8", "--max-seconds", "-1"},
      {"--case", "quick-m8", "stray.json"},
      {"--no-such-option"},
  };
  for (const auto& arguments : bad) {
    INFO((arguments.empty() ? "" : arguments.back()));
    CHECK(run_bench(arguments).exit_code == 2);
  }
  const TemporaryFolder folder;
  CHECK(run_bench({"--case", "quick-m8", "--json", folder.file("none/x.json")}).exit_code == 73);
  const std::string suites = folder.file("suites.json");
  std::filesystem::copy_file(kSuiteFile, suites);
  CHECK(run_bench({"--case", "quick-m8", "--kernel", "reference", "--json", suites}, suites).exit_code == 2);
  CHECK(bytes_of(suites) == bytes_of(kSuiteFile));
}

TEST_CASE("bench: suites are data", "[tools][bench]") {
  const std::vector<tools::BenchSuite> suites = tools::load_suites(kSuiteFile);
  for (const auto& suite : suites) {
    // Every pattern has room for its blocks (graphs are drawn, which takes a while).
    for (const auto& one : suite.cases) {
      if (one.pattern == "rmat" && one.header.num_blocks > 500'000) continue;
      INFO(one.name);
      CHECK_NOTHROW(tools::make_pattern(one.pattern, one.header.blocks_per_side(), one.header.num_blocks,
                                        one.pattern_options(1)));
      if (one.compare_with) CHECK_NOTHROW(tools::select_cases(suites, {}, {*one.compare_with}));
    }
  }
  const auto chosen = tools::select_cases(suites, {"P", "P"}, {"S3", "P1"});
  REQUIRE(chosen.size() == 6);
  CHECK(chosen[0].name == "P1");
  CHECK(chosen[5].header == MatrixHeader{.n = 32768, .m = 8, .num_blocks = 8800000});
  std::vector<bool> sides(kMaxBlockDim + 1);
  for (const tools::BenchCase& one : tools::select_cases(suites, {"all-sides"}, {})) sides.at(one.header.m) = true;
  CHECK(std::count(sides.begin(), sides.end(), true) == 64);

  const TemporaryFolder folder;
  const auto exit_code = [&](const std::string& cases) {
    const std::string file = write_text(folder.file("suites.json"), R"({"suites": {"x": [)" + cases + "]}}");
    return run_bench({"--list"}, file).exit_code;
  };
  CHECK(exit_code(R"({"name": "a", "n": 8, "m": 4, "k": 4})") == 0);
  for (const char* wrong :
       {R"({"name": "a", "n": 9, "m": 4, "k": 4})", R"({"name": "a", "n": 8, "m": 4, "k": 5})",
        R"({"name": "a", "n": 8, "m": 4})", R"({"name": "a", "n": 8, "m": 4, "k": 4, "patern": "uniform"})",
        R"({"name": "a", "n": 8, "m": 4, "k": 4, "pattern": "round"})",
        R"({"name": "a", "n": 8, "m": 4, "k": 4, "max_value": 65536})",
        R"({"name": "a", "n": 8, "m": 4, "k": 4}, {"name": "a", "n": 8, "m": 4, "k": 3})",
        R"({"name": "a", "n": 8, "m": 4, "k": 4, "memory_share": 0})", "nonsense"}) {
    INFO(wrong);
    CHECK(exit_code(wrong) == 65);
  }
  // Nested so deep that printing it would overflow the stack.
  for (const std::size_t depth : {3, 100, 1'000'000}) {
    CHECK(exit_code(R"({"name": "x", "n": )" + std::string(depth, '[') + std::string(depth, ']') + "}") == 65);
  }
}

TEST_CASE("bench: limits of time, and programs that end", "[tools][bench]") {
  const auto stops = [](const tools::TimeLimit& limit) {
    for (int t = 0; t < 500 && !*limit.stop_flag(); ++t) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return limit.stop_flag()->load();
  };
  std::atomic<bool> asked{false};
  const tools::TimeLimit none(std::nullopt, &asked);
  CHECK(none.stop_flag() == &asked);
  const tools::TimeLimit far(1000, &asked);
  CHECK_FALSE(far.stop_flag()->load());
  const tools::TimeLimit near(0.01, &asked);
  CHECK(stops(near));
  CHECK(near.expired());
  asked = true;
  CHECK(stops(far));
  CHECK_FALSE(far.expired());

  CHECK(tools::time_process({"/bin/sh", "-c", "exit 3"}, nullptr).second == 3);
  const auto [seconds, exit_code] = tools::time_process({"/bin/sleep", "60"}, &asked);
  CHECK(exit_code == -1);
  CHECK(seconds < 30);
  CHECK_THROWS_AS(tools::time_process({"/no/such/program"}, nullptr), IoError);
}

TEST_CASE("measure.sh: a file a step, of cases and kernels that there are; a failure spares the other steps",
          "[tools][measure]") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("bin"));
  // In place of spmm-bench: notes its arguments in the file of --json, and fails on the CPU.
  write_text(folder.file("bin/spmm-bench"), R"(#!/usr/bin/env bash
for ((i = 1; i <= $#; ++i)); do
  if [[ ${!i} == --json ]]; then next=$((i + 1)); printf '%s\n' "$@" >"${!next}"; fi
done
if [[ "$*" == *"--backend cpu"* ]]; then exit 1; fi
)");
  std::filesystem::permissions(folder.file("bin/spmm-bench"), std::filesystem::perms::owner_all);
  const auto measure = [&](const Words& steps) {
    Words words = {"/usr/bin/env",
                   "bash",
                   SPMM_SOURCE_DIR "/tools/scripts/measure.sh",
                   "--bin",
                   folder.file("bin"),
                   "--out",
                   folder.file("out"),
                   "--work",
                   folder.file("work")};
    words.insert(words.end(), steps.begin(), steps.end());
    return run_process(words);
  };
  const ProcessResult result = measure({"cpu", "speed", "reference", "density", "shapes", "patterns", "sides"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 1);
  CHECK(num_files_in(folder.file("out")) == 7);
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("out"))) {
    INFO(entry.path());
    CHECK(std::filesystem::exists(SPMM_SOURCE_DIR "/data/measurements" / entry.path().filename()));
    std::ifstream in(entry.path());
    const auto suites = tools::load_suites(kSuiteFile);
    for (std::string option, word; std::getline(in, word); option = word) {
      std::istringstream names(word);
      for (std::string name; std::getline(names, name, ',');) {
        if (option == "--suite") CHECK_NOTHROW(tools::select_cases(suites, {name}, {}));
        if (option == "--case") CHECK_NOTHROW(tools::select_cases(suites, {}, {name}));
        if (option == "--kernel") {
          CHECK(std::any_of(kernel_names().begin(), kernel_names().end(),
                            [&](const KernelInfo& one) { return name == "all" || one.name == name; }));
        }
      }
    }
  }
  CHECK(measure({"speed"}).exit_code == 0);
  CHECK(measure({"sped"}).exit_code == 2);
}
