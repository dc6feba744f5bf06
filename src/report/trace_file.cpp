// Traces as JSON for trace viewers.
#include "report/trace_file.hpp"

#include <cstdio>

#include "base/text.hpp"
#include "report/json_writer.hpp"
#include "report/text.hpp"

namespace spmm::cli {
namespace {

/// Nanoseconds as microseconds with three digits behind the point.
std::string microseconds(std::int64_t ns) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%lld.%03d", static_cast<long long>(ns / 1000), static_cast<int>(ns % 1000));
  return digits;
}

/// The name of a process or a thread.
std::string named(const char* what, int process, std::size_t thread, const std::string& name) {
  return text(R"({"ph":"M","name":")", what, R"(","pid":)", process, R"(,"tid":)", thread, R"(,"args":{"name":)",
              json_quoted(name), "}},\n");
}

std::string event_text(const TraceEvent& event, int process, std::size_t thread) {
  std::string arguments;
  const auto add = [&](const char* name, std::uint64_t value) {
    arguments += (arguments.empty() ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(value);
  };
  if (event.work.bytes != 0) add("bytes", event.work.bytes);
  if (event.work.pairs != 0) add("pairs", event.work.pairs);
  if (event.work.panel != StageWork::kNoPanel) add("panel", event.work.panel);
  if (event.num != 1) add("joined", event.num);
  return text(R"({"ph":"X","name":")", event.name, R"(","pid":)", process, R"(,"tid":)", thread, R"(,"ts":)",
              microseconds(event.begin_ns), R"(,"dur":)", microseconds(event.end_ns - event.begin_ns), R"(,"args":{)",
              arguments, "}},\n");
}

}  // namespace

std::string trace_json(const Trace& trace, const Report& report) {
  constexpr int kHostProcess = 1;  // devices follow
  std::string json = "[\n" + named("process_name", kHostProcess, 0, "spmm") +
                     text(R"({"ph":"X","name":"product","pid":1,"tid":1,"ts":0,"dur":)", microseconds(trace.end_ns),
                          R"(,"args":{"pairs":)", report.pairs, R"(,"blocks":)", report.c_blocks, R"(,"panels":)",
                          report.num_panels, R"(,"kernel":)", json_quoted(report.plan.kernel), R"(,"device":)",
                          json_quoted(report.device), "}},\n");
  int last = kHostProcess;
  for (std::size_t x = 0; x < trace.tracks.size(); ++x) {
    const TraceTrack& track = trace.tracks[x];
    const int process = track.device < 0 ? kHostProcess : kHostProcess + 1 + track.device;
    if (process != last) json += named("process_name", process, 0, text("GPU ", track.device, " ", track.owner));
    last = process;
    json += named("thread_name", process, x + 1, track.name);
    for (const TraceEvent& event : track.events) json += event_text(event, process, x + 1);
  }
  json.resize(json.size() - 2);  // the last comma
  return json + "\n]\n";
}

void write_trace(const std::string& path, const Trace& trace, const Report& report) {
  write_text(path, trace_json(trace, report));
}

}  // namespace spmm::cli
