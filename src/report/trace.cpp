// Traces as JSON for trace viewers.
#include <cstdio>

#include "base/text.hpp"
#include "report/json.hpp"

namespace spmm::cli {
namespace {

std::string microseconds(std::int64_t ns) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3f", static_cast<double>(ns) / 1000);
  return digits;
}

std::string arguments_of(const TraceEvent& event) {
  std::string arguments;
  if (event.work.bytes != 0) arguments += text(R"(,"bytes":)", event.work.bytes);
  if (event.work.pairs != 0) arguments += text(R"(,"pairs":)", event.work.pairs);
  if (event.work.panel != StageWork::kNoPanel) arguments += text(R"(,"panel":)", event.work.panel);
  if (event.num != 1) arguments += text(R"(,"joined":)", event.num);
  return arguments.substr(arguments.empty() ? 0 : 1);
}

}  // namespace

std::string trace_json(const Trace& trace, const Report& report) {
  constexpr int kHost = 1;  // process; devices follow
  std::string json = "[";
  const auto add_name = [&](const char* what, int process, std::size_t thread, const std::string& name) {
    json += text("\n", R"({"ph":"M","name":")", what, R"(","pid":)", process, R"(,"tid":)", thread,
                 R"(,"args":{"name":)", json_quoted(name), "}},");
  };
  const auto add_event = [&](const TraceEvent& event, int process, std::size_t thread, const std::string& arguments) {
    json += text("\n", R"({"ph":"X","name":")", event.name, R"(","pid":)", process, R"(,"tid":)", thread, R"(,"ts":)",
                 microseconds(event.begin_ns), R"(,"dur":)", microseconds(event.end_ns - event.begin_ns),
                 R"(,"args":{)", arguments, "}},");
  };
  add_name("process_name", kHost, 0, "spmm");
  add_event({.name = "product", .end_ns = trace.end_ns}, kHost, 1,
            text(R"("pairs":)", report.pairs, R"(,"blocks":)", report.c_blocks, R"(,"panels":)", report.num_panels,
                 R"(,"kernel":)", json_quoted(report.plan.kernel), R"(,"device":)", json_quoted(report.device)));
  int last = kHost;
  for (std::size_t thread = 1; const TraceTrack& track : trace.tracks) {
    const int process = track.device < 0 ? kHost : kHost + 1 + track.device;
    if (process != last) add_name("process_name", process, 0, text("GPU ", track.device, " ", track.owner));
    last = process;
    add_name("thread_name", process, thread, track.name);
    for (const TraceEvent& event : track.events) add_event(event, process, thread, arguments_of(event));
    ++thread;
  }
  json.back() = '\n';  // the last comma
  return json + "]\n";
}

}  // namespace spmm::cli
