// Reports, traces, plans and progress as text.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/progress_bar.hpp"
#include "cli/run_length.hpp"
#include "report/json.hpp"
#include "report/text.hpp"
#include "spmm/report.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tools/spmm/command_line.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kJson = "{\n  \"x\": 1\n}";

}  // namespace

TEST_CASE("the report follows a link that is given, and none that is planted under a name that could be guessed") {
  const WorkingFolder folder;
  write_bytes("old.bin", "old");
  const std::string guess = "r.json.tmp-" + std::to_string(getpid());
  fs::create_symlink("old.bin", guess);
  write_bytes("real.json", "old");
  fs::create_symlink("real.json", "r.json");
  write_json_text("r.json", kJson);
  CHECK(bytes_of("old.bin") == "old");
  CHECK(fs::is_symlink(guess));
  CHECK(fs::is_symlink("r.json"));
  CHECK(bytes_of("real.json") == std::string(kJson) + "\n");
}

TEST_CASE("devices that share a product and their shares are in the plan and in the report") {
  spmm::Report report;
  report.a = report.b = report.c = {.n = 8, .m = 8, .num_blocks = 1};
  report.plan.backend = spmm::Backend::cuda;
  report.plan.devices = {{.number = 1, .name = "Made-up 9000", .share = 1}};
  CHECK_FALSE(has(plan_text(report.a, report.b, report.plan), "devices:"));
  CHECK_FALSE(Json::parse(report_json(report, {}))["devices"][0].contains("pairs"));

  report.plan.devices[0].share = 0.75;
  report.plan.devices[0].pairs = 3;
  report.plan.devices.push_back(
      {.number = 4, .name = "Made-up 8000", .share = 0.25, .pairs = 1, .num_panels = 2, .multiply_s = 0.5});
  CHECK(has(plan_text(report.a, report.b, report.plan),
            "devices: 1 Made-up 9000 75 %, 4 Made-up 8000 25 % of the pairs"));
  const Json json = Json::parse(report_json(report, {}));
  CHECK(json["devices"].size() == 2);
  CHECK(json["devices"][0]["number"] == 1);
  CHECK(json["devices"][0]["pairs"] == 3);
  CHECK(json["devices"][1]["share"] == 0.25);
  CHECK(json["devices"][1]["panels"] == 2);
  CHECK(json["devices"][1]["multiply_s"] == 0.5);
  CHECK(json["plan"]["devices"][1]["name"] == "Made-up 8000");
}

TEST_CASE("a progress line shows stage, share, rate and remaining time") {
  using spmm::Stage;
  CHECK(progress_line(Stage::multiply, 250, 1000, 2.0, 200) ==
        "multiply [#######.......................] 25%  125 rows/s  ETA 0:06");
  CHECK(progress_line(Stage::read, 10, 7200, 1.0, 200) ==
        "read [..............................] 0%  10 B/s  ETA 11:59");
  CHECK(progress_line(Stage::multiply, 0, 0, 1.0, 200) == "multiply [##############################] 100%");
  CHECK(progress_line(Stage::multiply, 5, 10, 0.0, 200) == "multiply [###############...............] 50%");
  CHECK(progress_line(Stage::multiply, 11, 10, 1.0, 200) ==
        "multiply [##############################] 100%  10 rows/s  ETA 0:00");
  CHECK(progress_line(Stage::multiply, 5, 10, 1.0, 12) == "multiply [##");
}

TEST_CASE("a trace: the streams of devices are processes of their own, and names may hold anything") {
  spmm::Report report;
  report.device = "a \"GPU\"\n\xFF";
  spmm::Trace trace{.end_ns = 2'000'000};
  trace.tracks.push_back({.owner = {}, .name = "main"});
  for (const int device : {0, 0, 3}) {
    trace.tracks.push_back(
        {.device = device,
         .owner = "H \\ \"x\"",
         .name = "stream 1",
         .events = {{.name = "multiply", .begin_ns = 1001, .end_ns = 1'999'999, .work = {.pairs = 7, .panel = 0}},
                    {.name = "multiply", .begin_ns = 5000, .end_ns = 5000, .num = 9, .depth = 1}}});
  }
  const std::string text = trace_json(trace, report);
  std::set<Json> tracks;
  std::set<Json> processes;
  for (const Json& event : Json::parse(text)) {
    if (event["name"] == "thread_name") CHECK(tracks.insert(Json::array({event["pid"], event["tid"]})).second);
    if (event["name"] == "process_name") CHECK(processes.insert(event["pid"]).second);
  }
  CHECK(tracks.size() == 4);
  CHECK(processes.size() == 3);
  CHECK(has(text, R"("ts":1.001,"dur":1998.998,"args":{"pairs":7,"panel":0}})"));
  CHECK(has(text, R"("ts":5.0,"dur":0.0,"args":{"joined":9}})"));
  CHECK(has(text, R"(GPU 3 H \\ \"x\")"));
}

TEST_CASE("a program without CUDA names the command that builds it for a GPU which is there") {
  CHECK(has(unused_gpus_warning(false, 1), "demo.sh --cuda"));
  CHECK(unused_gpus_warning(false, 0).empty());
  CHECK(unused_gpus_warning(true, 1).empty());
}

TEST_CASE("what is free is known of disks alone") {
  CHECK_FALSE(free_bytes_for("/dev/null"));
  CHECK_FALSE(free_bytes_for("/no/such/folder/c.bin"));
  CHECK(free_bytes_for("/tmp/c.bin"));
  CHECK(free_bytes_for("c.bin"));
}
