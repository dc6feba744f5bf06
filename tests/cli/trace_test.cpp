// --trace: read back by a strict reader; what it must refuse; a failed run leaves none.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "report/json.hpp"
#include "spmm/report.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
using nlohmann::json;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Track = std::pair<int, int>;  // process and thread

/// A trace as read back; every rule that it breaks is a failed check.
struct ReadTrace {
  std::map<Track, std::string> names;
  std::map<std::string, std::uint64_t> bytes;  // by name of the event
  std::map<std::string, std::uint64_t> pairs;
  std::int64_t end_ns = 0;
};

ReadTrace read_trace(const std::string& text) {
  const auto nanoseconds = [](const json& us) { return std::llround(us.get<double>() * 1000); };
  ReadTrace trace;
  std::set<int> processes;
  std::map<Track, std::vector<std::int64_t>> open;  // ends
  std::set<std::string> known(spmm::kStageNames.begin(), spmm::kStageNames.end());
  known.insert("product");
  for (const json& event : json::parse(text)) {
    INFO(event.dump());
    const Track track{event["pid"].get<int>(), event["tid"].get<int>()};
    const std::string name = event["name"];
    if (name == "process_name") {
      CHECK(processes.insert(track.first).second);
      continue;
    }
    if (name == "thread_name") {
      CHECK(trace.names.emplace(track, event["args"]["name"]).second);
      continue;
    }
    CHECK(event["ph"] == "X");
    CHECK(processes.contains(track.first));
    CHECK(known.contains(name));
    const std::int64_t begin = nanoseconds(event["ts"]);
    const std::int64_t end = begin + nanoseconds(event["dur"]);
    if (trace.end_ns == 0) {  // the first event is the product itself
      CHECK(name == "product");
      trace.end_ns = end;
    }
    CHECK((begin >= 0 && begin <= end && end <= trace.end_ns));
    std::vector<std::int64_t>& around = open[track];  // events of a track nest
    while (!around.empty() && around.back() <= begin && end > around.back()) around.pop_back();
    if (!around.empty()) CHECK(end <= around.back());
    around.push_back(end);
    trace.bytes[name] += event["args"].value("bytes", std::uint64_t{0});
    trace.pairs[name] += event["args"].value("pairs", std::uint64_t{0});
  }
  for (const auto& [track, ends] : open) CHECK(trace.names.contains(track));
  return trace;
}

/// What a trace must have in common with the report of the same run.
void check_against_report(const ReadTrace& trace, const json& report) {
  for (const auto& [stage, totals] : report["stages"].items()) {
    INFO(stage);
    CHECK((totals["s"] == 0.0) == !trace.bytes.contains(stage));
  }
  CHECK(std::abs(static_cast<double>(trace.end_ns) * 1e-9 - report["total_s"].get<double>()) < 1e-6);
  CHECK(trace.pairs.at("product") == report["pairs"]);
}

}  // namespace

TEST_CASE("a trace has every stage of the report, nested on named tracks, with bytes and pairs") {
  const Workplace workplace;
  const Words extra = GENERATE(Words{}, Words{"--verify", "10"}, Words{"--kernel", "reference"},
                               Words{"--kernel", "reference", "--memory-limit", "60k"});
  Words arguments = {"-q", "--backend", "cpu", "--threads", "2", "--trace", "t.json", "--report", "r.json"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  arguments.insert(arguments.end(), {"a.bin", "b.bin", "c"});
  const ProcessResult result = spmm_command(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == kOk);
  const ReadTrace trace = read_trace(bytes_of("t.json"));
  const json report = json::parse(bytes_of("r.json"));
  check_against_report(trace, report);
  CHECK(trace.names.at({1, 1}) == "main");
  CHECK(names_in(".") == Words{"a.bin", "b.bin", "c", "old.bin", "r.json", "t.json"});
  if (!extra.empty()) return;
  CHECK(trace.bytes.at("read") == report["stages"]["read"]["bytes"]);
  CHECK(trace.pairs.at("multiply") == report["pairs"]);
  CHECK(trace.bytes.at("multiply") + 12 == report["stages"]["write"]["bytes"]);
  CHECK(trace.bytes.at("write") + 12 == report["stages"]["write"]["bytes"]);
}

TEST_CASE("the streams of devices are processes of their own, and names may hold anything") {
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
  const ReadTrace read = read_trace(text);
  CHECK(read.names.size() == 4);
  CHECK(read.pairs.at("multiply") == 21);
  CHECK(text.find(R"("ts":1.001,"dur":1998.998,"args":{"pairs":7,"panel":0}})") != std::string::npos);
  CHECK(text.find(R"("ts":5.000,"dur":0.000,"args":{"joined":9}})") != std::string::npos);
  CHECK(text.find(R"(GPU 3 H \\ \"x\")") != std::string::npos);
}

TEST_CASE("a run that fails leaves the trace as it was, one that cannot be written says that the product is there") {
  const Workplace workplace;
  write_bytes("bad.bin", "too short");
  write_bytes("t.json", "before");
  CHECK(spmm_command({"--trace", "t.json", "a.bin", "bad.bin", "c.bin"}).exit_code != kOk);
  CHECK(bytes_of("t.json") == "before");
  const ProcessResult full = spmm_command({"--trace", "/dev/full", "a.bin", "b.bin", "c.bin"});
  INFO(full.err);
  CHECK(full.exit_code == kCannotCreate);
  CHECK(full.err.find("the product is complete") != std::string::npos);
  CHECK(fs::exists("c.bin"));
}
