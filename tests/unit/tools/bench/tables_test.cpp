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
#include "tools/bench/process.hpp"
#include "tools/bench/report.hpp"
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
    {"name": "pressed", "n": 2048, "m": 8, "k": 40000, "memory_share": 0.7, "compare_with": "slow"},
    {"name": "known", "n": 1024, "m": 8, "k": 1600, "published_s": 100}
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

TEST_CASE("bench: predictions beside measurements", "[tools][bench]") {
  const std::vector<Candidate> told = {{"first", 10}, {"second", 4}, {"fourth", 1.4}};
  const Json json = made_up_measurement({made_up_case(
      "one", kShape,
      {made_up_kernel("first", kShape, 12, 7, told), made_up_kernel("second", kShape, 8, 7),  // told by the first
       made_up_kernel("third", kShape, 9, 7), made_up_kernel("fourth", kShape, 0.9, 7)})});
  const Json& kernels = json["cases"][0]["kernels"];
  CHECK(kernels[0]["device_over_predicted"] == Approx(1.2));
  CHECK(kernels[1]["predicted_ms"] == 4.0);
  CHECK_FALSE(kernels[2].contains("predicted_ms"));
  const std::string table = tools::prediction_table(json);
  check_has(table, "| one | first | 10 | 12 | 1.2 |  |");
  check_has(table, "| one | second | 4 | 8 | 2 | yes |");
  check_has(table, "| one | fourth | 1.4 | 0.9 | 0.643 | yes |");
  CHECK(table.find("third") == std::string::npos);
  CHECK(tools::prediction_table(made_up_measurement({})).empty());

  Json slow_build = json;
  slow_build["cases"][0]["kernels"][0]["device_over_predicted"] = 1.6;
  check_has(tools::prediction_table(slow_build), "| one | first | 10 | 12 | 1.6 | yes |");
}

TEST_CASE("bench: cases with a memory limit and the same without", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measure(folder, {"--case", "pressed", "--kernel", "row-merge"});
  const Json& free = json["cases"][0]["kernels"][0];
  const Json& pressed = json["cases"][1]["kernels"][0];
  CHECK(json["cases"][1]["memory_share"] == 0.7);
  CHECK(free["bytes_read"] == free["bytes_in"].get<std::uint64_t>() - 24);  // headers are read before
  CHECK(pressed["bytes_read"] > free["bytes_read"]);
  CHECK(pressed["validated"] == true);
  const std::string table = tools::limits_table(json);
  check_has(table, "| pressed | row-merge | 0.7 | ");
  CHECK(table.find("| slow |") == std::string::npos);
}

TEST_CASE("bench: cases compared per multiply-add", "[tools][bench]") {
  constexpr MatrixHeader kLarge{.n = 800, .m = 8, .num_blocks = 100};
  tools::CaseResult skewed = made_up_case(
      "skewed", kLarge, {made_up_kernel("first", kLarge, 12, 10), made_up_kernel("second", kLarge, 12, 10)});
  skewed.what.compare_with = "even";
  // 10 pairs of 8 x 8 x 8 against 40 pairs of 4 x 4 x 4: twice the multiply-adds.
  const Json json =
      made_up_measurement({made_up_case("even", kShape, {made_up_kernel("first", kShape, 2, 40)}), skewed});
  const Json& kernels = json["cases"][1]["kernels"];
  CHECK(kernels[0]["compared"]["with"] == "even");
  CHECK(kernels[0]["compared"]["device_ms"] == Approx(3));
  CHECK(kernels[0]["compared"]["multiply_ms"] == Approx(3));
  CHECK_FALSE(kernels[1].contains("compared"));
  check_has(tools::comparison_table(json), "| skewed | first | even | 12 | 3 | 3 |");
  CHECK(tools::comparison_table(made_up_measurement({skewed})).empty());
}

TEST_CASE("bench: a case brings its partner", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measure(folder, {"--case", "pair"});
  REQUIRE(json["cases"].size() == 2);
  CHECK(json["cases"][0]["name"] == "half");
  CHECK(json["cases"][1]["kernels"][0]["compared"]["with"] == "half");
  for (const Json& one : json["cases"]) {
    const Json& kernel = one["kernels"][0];
    CHECK(kernel["terms"] == kernel["pairs"].get<double>() * 512);
  }
}

TEST_CASE("bench: whole processes", "[tools][bench]") {
  const TemporaryFolder folder;
  const Json json = measure(folder, {"--case", "known", "--e2e"});
  const Json& kernel = json["cases"][0]["kernels"][0];
  CHECK(kernel["e2e_s"]["min"] > 0);
  CHECK(kernel["e2e_runs_s"].size() == 1);
  CHECK(kernel["e2e_runs_s"][0] == kernel["e2e_s"]["median"]);
  CHECK(kernel["e2e_peak_resident_bytes"].is_number());
  CHECK(kernel["published_over_e2e"].get<double>() == Approx(100 / kernel["e2e_s"]["median"].get<double>()));
  check_has(tools::process_table(json), "| known | auto | ");
  const Json without = measure(folder, {"--case", "known"});
  CHECK_FALSE(without["cases"][0]["kernels"][0].contains("e2e_s"));
  CHECK(tools::process_table(without).empty());
}

TEST_CASE("bench: a kernel that takes too long is skipped", "[tools][bench]") {
  const TemporaryFolder folder;
  constexpr int kNothingRan = 69;
  const Json slow = measure(folder, {"--case", "slow", "--kernel", "reference", "--max-seconds", "1.5"}, kNothingRan);
  const Json& skipped = slow["cases"][0]["kernels"][0];
  CHECK(skipped["status"] == "skipped");
  const std::string reason = skipped["reason"];  // by its time, on a slow machine by its prediction
  CHECK(reason.find("a run ") == 0);
  CHECK(reason.find("--max-seconds 1.5") != std::string::npos);
  const Json fast = measure(folder, {"--case", "known", "--kernel", "row-merge", "--max-seconds", "1000"});
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
