// Traces as JSON for trace viewers.
#include "report/trace_file.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "io/formats/json_text.hpp"
#include "report/text.hpp"

namespace spmm::cli {
namespace {

constexpr std::size_t kEventBytes = 160;  // of an event as text, about
constexpr int kHostProcess = 1;           // devices follow

/// JSON, piece by piece: a trace has too many events for a tree of values.
class TraceText {
 public:
  explicit TraceText(std::size_t num_events) { out_.reserve((num_events + 16) * kEventBytes); }

  TraceText& raw(std::string_view text) {
    out_ += text;
    return *this;
  }

  TraceText& number(std::uint64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    out_.append(digits, end.ptr);
    return *this;
  }

  /// Nanoseconds as microseconds with three digits behind the point.
  TraceText& microseconds(std::int64_t ns) {
    const auto value = static_cast<std::uint64_t>(ns);
    number(value / 1000);
    const auto rest = static_cast<unsigned>(value % 1000);
    out_ += '.';
    for (const unsigned digit : {rest / 100, rest / 10 % 10, rest % 10}) out_ += static_cast<char>('0' + digit);
    return *this;
  }

  /// A name that may hold anything.
  TraceText& quoted(const std::string& text) { return raw(io::json_quoted(text)); }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

int process_of(const TraceTrack& track) {
  return track.device < 0 ? kHostProcess : kHostProcess + 1 + track.device;
}

/// The name of a process or a thread.
void add_name(TraceText& text, const char* what, int process, std::size_t thread, const std::string& name) {
  text.raw(R"({"ph":"M","name":")").raw(what).raw(R"(","pid":)").number(static_cast<std::uint64_t>(process));
  text.raw(R"(,"tid":)").number(thread).raw(R"(,"args":{"name":)").quoted(name).raw("}},\n");
}

void add_event(TraceText& text, const TraceEvent& event, int process, std::size_t thread) {
  text.raw(R"({"ph":"X","name":")").raw(event.name).raw(R"(","pid":)").number(static_cast<std::uint64_t>(process));
  text.raw(R"(,"tid":)").number(thread).raw(R"(,"ts":)").microseconds(event.begin_ns);
  text.raw(R"(,"dur":)").microseconds(event.end_ns - event.begin_ns).raw(R"(,"args":{)");
  const char* comma = "";
  const auto argument = [&](std::string_view name, std::uint64_t value) {
    text.raw(comma).raw(name).number(value);
    comma = ",";
  };
  if (event.work.bytes != 0) argument(R"("bytes":)", event.work.bytes);
  if (event.work.pairs != 0) argument(R"("pairs":)", event.work.pairs);
  if (event.work.panel != StageWork::kNoPanel) argument(R"("panel":)", event.work.panel);
  if (event.num != 1) argument(R"("joined":)", event.num);
  text.raw("}},\n");
}

/// The event that contains all others of the first track.
void add_product(TraceText& text, const Trace& trace, const Report& report) {
  text.raw(R"({"ph":"X","name":"product","pid":1,"tid":1,"ts":0,"dur":)").microseconds(trace.end_ns);
  text.raw(R"(,"args":{"pairs":)").number(report.pairs).raw(R"(,"blocks":)").number(report.c_blocks);
  text.raw(R"(,"panels":)").number(report.num_panels).raw(R"(,"kernel":)").quoted(report.plan.kernel);
  text.raw(R"(,"device":)").quoted(report.device).raw("}},\n");
}

}  // namespace

std::string trace_json(const Trace& trace, const Report& report) {
  std::size_t num_events = 0;
  for (const TraceTrack& track : trace.tracks) num_events += track.events.size() + 2;
  TraceText text(num_events);
  text.raw("[\n");
  add_name(text, "process_name", kHostProcess, 0, "spmm");
  add_product(text, trace, report);
  int named = kHostProcess;
  for (std::size_t x = 0; x < trace.tracks.size(); ++x) {
    const TraceTrack& track = trace.tracks[x];
    const int process = process_of(track);
    if (process != named) {
      add_name(text, "process_name", process, 0, "GPU " + std::to_string(track.device) + " " + track.owner);
      named = process;
    }
    add_name(text, "thread_name", process, x + 1, track.name);
    for (const TraceEvent& event : track.events) add_event(text, event, process, x + 1);
  }
  std::string json = text.take();
  json.resize(json.size() - 2);  // the last comma
  return json + "\n]\n";
}

void write_trace(const std::string& path, const Trace& trace, const Report& report) {
  write_text(path, trace_json(trace, report));
}

}  // namespace spmm::cli
