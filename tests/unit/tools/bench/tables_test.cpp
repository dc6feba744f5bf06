// spmm-bench: predictions, comparisons, whole processes and time limits, from made-up numbers and small runs.
#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/run.hpp"
#include "tools/common/measurement.hpp"
#include "unit/tools/bench/support.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Json = nlohmann::ordered_json;

constexpr MatrixHeader kShape{.n = 400, .m = 4, .num_blocks = 100};

constexpr const char* kSuites = R"({
  "suites": {"x": [
    {"name": "half", "n": 1024, "m": 8, "k": 1600},
    {"name": "pair", "n": 1024, "m": 8, "k": 3200, "compare_with": "half"},
    {"name": "slow", "n": 2048, "m": 8, "k": 40000},
    {"name": "pressed", "n": 2048, "m": 8, "k": 40000, "memory_share": 0.7, "compare_with": "slow"}
  ]}
})";

/// Runs a case of kSuites on the CPU.
Json measure(const TemporaryFolder& folder, std::vector<std::string> arguments, int exit_code = 0) {
  std::ofstream(folder.file("suites.json")) << kSuites;
  arguments.insert(arguments.end(), {"--backend", "cpu", "--runs", "1", "--suites", folder.file("suites.json"),
                                     "--json", "-", "--work", folder.file("work")});
  const ProcessResult result = run_tool("bench", arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == exit_code);
  return parse_report("bench", result.out);
}

}  // namespace

TEST_CASE("bench: cases with a memory limit beside the same without", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measure(folder, {"--case", "pressed", "--kernel", "row-merge"});
  CHECK(json["cases"][1]["memory_share"] == 0.7);
  CHECK(json["cases"][1]["kernels"][0]["validated"] == true);
  const std::string table = tools::comparison_table(json);
  check_has(table, "| pressed | row-merge | slow | ");
  CHECK(table.find("| slow | row-merge |") == std::string::npos);
}

TEST_CASE("bench: cases compared per multiply-add", "[tools][bench]") {
  constexpr MatrixHeader kLarge{.n = 800, .m = 8, .num_blocks = 100};
  tools::CaseResult skewed = made_up_case(
      "skewed", kLarge, {made_up_kernel("first", kLarge, 12, 10), made_up_kernel("second", kLarge, 12, 10)});
  skewed.what.compare_with = "even";
  // 10 pairs of 8 x 8 x 8 against 40 pairs of 4 x 4 x 4: twice the multiply-adds.
  const std::string table = tools::comparison_table(
      made_up_measurement({made_up_case("even", kShape, {made_up_kernel("first", kShape, 2, 40)}), skewed}));
  check_has(table, "| skewed | first | even | 3 | 3 | 3 |");
  CHECK(table.find("second") == std::string::npos);
  CHECK(tools::comparison_table(made_up_measurement({skewed})).empty());
}

TEST_CASE("bench: a case brings its partner", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measure(folder, {"--case", "pair"});
  REQUIRE(json["cases"].size() == 2);
  CHECK(json["cases"][0]["name"] == "half");
  check_has(tools::comparison_table(json), "| pair | auto | half | ");
}

TEST_CASE("bench: whole processes", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measure(folder, {"--case", "half", "--e2e"});
  const Json& kernel = json["cases"][0]["kernels"][0];
  CHECK(kernel["e2e_s"]["min"] > 0);
  CHECK(kernel["e2e_peak_resident_bytes"].is_number());
  const Json without = measure(folder, {"--case", "half"});
  CHECK_FALSE(without["cases"][0]["kernels"][0].contains("e2e_s"));

  tools::CaseResult result = made_up_case("one", kShape, {made_up_kernel("first", kShape, 12, 7)});
  tools::KernelResult& timed = result.kernels[0];
  timed.processes.s = {3, 1, 2};
  check_has(tools::table_row(result, timed), "| 2 (1-3) | yes |");
  timed.processes = {.s = {}, .failure = "exit code 71"};
  check_has(tools::table_row(result, timed), "| failed | yes |");
}

TEST_CASE("bench: a kernel that takes too long is skipped", "[tools][bench]") {
  const TemporaryFolder folder;
  constexpr int kNothingRan = 69;
  const Json slow = measure(folder, {"--case", "slow", "--kernel", "reference", "--max-seconds", "1.5"}, kNothingRan);
  const Json& skipped = slow["cases"][0]["kernels"][0];
  CHECK(skipped["status"] == "skipped");
  CHECK(skipped["reason"] == "a run took longer than --max-seconds 1.5");
  const Json fast = measure(folder, {"--case", "half", "--kernel", "row-merge", "--max-seconds", "1000"});
  const Json& ran = fast["cases"][0]["kernels"][0];
  CHECK(ran["status"] == "ok");
  CHECK(ran["validated"] == true);
}

TEST_CASE("bench: time limits", "[tools][bench]") {
  const auto wait_for_stop = [](const tools::TimeLimit& limit) {
    for (int t = 0; t < 500 && !*limit.stop_flag(); ++t) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return limit.stop_flag()->load();
  };
  std::atomic<bool> asked{false};
  {
    const tools::TimeLimit none(std::nullopt, &asked);
    CHECK(none.stop_flag() == &asked);
    const tools::TimeLimit far(1000, &asked);
    CHECK_FALSE(far.stop_flag()->load());
    const tools::TimeLimit near(0.01, &asked);
    CHECK(wait_for_stop(near));
    CHECK(near.expired());
    CHECK_FALSE(asked);
    asked = true;
    CHECK(wait_for_stop(far));
    CHECK_FALSE(far.expired());
  }
  CHECK(tools::time_process({"/bin/sh", "-c", "exit 3"}, nullptr).exit_code == 3);
  const tools::TimedProcess stopped = tools::time_process({"/bin/sleep", "60"}, &asked);
  CHECK(stopped.exit_code == -1);
  CHECK(stopped.s < 30);
  CHECK_THROWS_AS(tools::time_process({"/no/such/program"}, nullptr), IoError);
  // The memory of that process, not of this one, which has held more.
  const std::vector<char> large(64'000'000, 1);
  const auto small = tools::time_process({"/bin/sleep", "0.3"}, nullptr);
  CHECK(small.peak_resident_bytes > 10'000);
  CHECK(small.peak_resident_bytes < large.size());
}

TEST_CASE("measurements: revision and driver are found in texts", "[tools][bench]") {
  CHECK(tools::revision_of("spmm 0.1.0 (git 0123456789ab), built without CUDA") == "0123456789ab");
  CHECK(tools::revision_of("spmm 0.1.0") == "unknown");
  CHECK(tools::driver_version_of(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:17:13 UTC 2025") == "580.65.06");
  CHECK(tools::driver_version_of("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build") ==
        "570.86.15");
  CHECK(tools::driver_version_of("").empty());
}
