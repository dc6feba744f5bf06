// Writing JSON piece by piece: reports, plans and traces.
#include "report/json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/text.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
JsonWriter& JsonWriter::open(std::string_view name, char bracket) {
  begin(name);
  out_ += bracket;
  is_first_ = true;
  ++depth_;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (!is_first_) new_line();
  out_ += bracket;
  is_first_ = false;
  return *this;
}

void JsonWriter::begin(std::string_view name) {
  if (!is_first_) out_ += ',';
  is_first_ = false;
  if (depth_ != 0) new_line();
  if (name.empty()) return;
  string(name);
  out_ += indent_ == 0 ? ":" : ": ";
}

void JsonWriter::new_line() {
  if (indent_ != 0) (out_ += '\n').append(std::size_t{indent_} * depth_, ' ');
}

void JsonWriter::number(double value) {
  if (!std::isfinite(value)) {
    out_ += "null";
    return;
  }
  std::array<char, 32> digits{};
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view written(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out_ += written;
  if (written.find_first_of(".e") == std::string_view::npos) out_ += ".0";  // a reader keeps it apart from a count
}

void JsonWriter::string(std::string_view value) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out_ += '"';
  while (!value.empty()) {
    const auto byte = static_cast<unsigned char>(value.front());
    const std::size_t length = utf8_length(value);
    if (byte == '"' || byte == '\\') {
      (out_ += '\\') += value.front();
    } else if (begins_with_control(value)) {
      const auto last = static_cast<unsigned char>(value[length - 1]);  // of a control character its number
      ((out_ += "\\u00") += kHex[last >> 4]) += kHex[last & 15];
    } else if (length == 0) {
      out_ += "\\ufffd";
    } else {
      out_ += value.substr(0, length);
    }
    value.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out_ += '"';
}

namespace {

/// Layout of the JSON of --report and --plan; it grows when a reader of the old layout would misread the new one.
constexpr int kReportSchema = 3;

/// Members of one matrix but its last, which are the caller's.
void open_matrix(JsonWriter& json, std::string_view name, const std::filesystem::path& path, const MatrixHeader& header,
                 std::uint64_t num_blocks, std::uint64_t record) {
  json.open(name, '{')
      .add("path", path.string())
      .add("n", header.n)
      .add("m", header.m)
      .add("blocks", num_blocks)
      .add("bytes", kHeaderBytes + num_blocks * record);
}

void add_operand(JsonWriter& json, std::string_view name, const std::filesystem::path& path, const MatrixHeader& header,
                 ElementType type, bool is_transposed) {
  open_matrix(json, name, path, header, header.num_blocks, record_bytes(type, header.m));
  json.add("transposed", is_transposed).close('}');
}

void add_result(JsonWriter& json, const std::filesystem::path& path, const Report& report) {
  open_matrix(json, "c", path, report.c, report.c_blocks, record_bytes(result_of(report.element_type), report.c.m));
  json.close('}');
}

/// Of a plan: what each device is expected to take; of a report: what it took.
void add_devices(JsonWriter& json, const std::vector<DeviceShare>& devices, bool has_run) {
  json.open("devices", '[');
  for (const DeviceShare& one : devices) {
    json.open("", '{').add("number", one.number).add("name", one.name).add("share", one.share);
    if (has_run) {
      json.add("pairs", one.pairs)
          .add("panels", one.num_panels)
          .add("blocks", one.num_blocks)
          .add("multiply_s", one.multiply_s);
    }
    json.close('}');
  }
  json.close(']');
}

void add_plan(JsonWriter& json, const Plan& plan) {
  json.open("plan", '{')
      .add("backend", backend_name(plan.backend))
      .add("kernel", plan.kernel)
      .add("reason", plan.why_backend)
      .add("threads", plan.num_threads)
      .add("host_limit_bytes", plan.host_limit_bytes)
      .add("host_need_bytes", plan.host_need_bytes)
      .add("device_limit_bytes", plan.device_limit_bytes)
      .add("device_need_bytes", plan.device_need_bytes)
      .add("expected_pairs", plan.expected_pairs)
      .add("expected_output_blocks", plan.expected_output_blocks);
  add_devices(json, plan.devices, false);
  json.open("rows", '{').add("first", plan.rows.first).add("end", plan.rows.end).close('}');
  json.add("ranges", plan.num_ranges)
      .add("slabs", plan.num_slabs)
      .add("scratch_bytes", plan.scratch_bytes)
      .add("safe_limit_bytes", plan.safe_limit_bytes)
      .add("exact", plan.exact)
      .add("proof_s", plan.proof_s)
      .add("predicted_s", plan.predicted_s)
      .close('}');
}

void add_proof(JsonWriter& json, const ProofReport& proof) {
  json.open("proof", '{');
  if (proof.key != 0) json.add("key", proof.key);
  json.add("rows", proof.num_rows)
      .add("saturated_elements", proof.num_saturated)
      .add("exact_block_rows", proof.num_exact_rows)
      .close('}');
}

/// What reports and plans begin with.
void add_run(JsonWriter& json, const MatrixHeader& a, const MatrixHeader& b, ElementType type, const Plan& plan,
             const RunNames& names) {
  json.add("schema", kReportSchema).add("version", version_string()).open("command", '[');
  for (const std::string& word : names.command) json.add("", word);
  json.close(']');
  add_operand(json, "a", names.a, a, type, plan.transpose_a);
  add_operand(json, "b", names.b, b, type, plan.transpose_b);
}

}  // namespace

std::string report_json(const Report& report, const RunNames& names, const ReportLayout& layout) {
  const Plan& plan = report.plan;
  JsonWriter json(layout.indent);
  json.open("", '{');
  add_run(json, report.a, report.b, report.element_type, plan, names);
  add_result(json, names.out, report);
  json.add("element_type", element_name(report.element_type));
  if (result_of(report.element_type) == ElementType::i64) json.add("may_overflow", report.may_overflow);
  json.add("pairs", report.pairs)
      .add("saturated_elements", report.saturated_elements)
      .add("dropped_elements", report.dropped_elements)
      .add("gpairs_per_s", report.total_s > 0 ? static_cast<double>(report.pairs) * 1e-9 / report.total_s : 0)
      .add("total_s", report.total_s)
      .add("backend", backend_name(plan.backend))
      .add("kernel", plan.kernel)
      .add("reason", plan.why_backend)
      .add("device", report.device);
  if (!plan.devices.empty()) add_devices(json, plan.devices, plan.devices.size() > 1);
  json.add("threads", plan.num_threads);
  add_plan(json, plan);
  json.add("panels", report.num_panels)
      .add("peak_host_bytes", report.peak_host_bytes)
      .add("peak_device_bytes", report.peak_device_bytes)
      .add("verified_blocks", report.verified_blocks);
  if (report.proof.is_proven) add_proof(json, report.proof);
  json.open("stages", '{');
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    json.open(kStageNames[s], '{').add("s", report.stages[s].s).add("bytes", report.stages[s].bytes).close('}');
  }
  json.close('}');
  if (layout.add_own) layout.add_own(json);
  return json.close('}').take();
}

std::string plan_json(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan, const RunNames& names) {
  JsonWriter json(2);
  json.open("", '{');
  add_run(json, a, b, ElementType::u16, plan, names);
  add_plan(json, plan);
  return json.close('}').take();
}

std::string trace_json(const Trace& trace, const Report& report) {
  constexpr int kHost = 1;  // process; devices follow
  JsonWriter json;
  const auto open_event = [&](const char* kind, std::string_view name, int process, std::size_t thread) {
    json.open("", '{').add("ph", kind).add("name", name).add("pid", process).add("tid", thread);
  };
  const auto add_name = [&](const char* what, int process, std::size_t thread, const std::string& name) {
    open_event("M", what, process, thread);
    json.open("args", '{').add("name", name).close('}').close('}');
  };
  const auto open_interval = [&](const TraceEvent& event, int process, std::size_t thread) {
    constexpr double kMicrosecond = 1000;
    open_event("X", event.name, process, thread);
    json.add("ts", static_cast<double>(event.begin_ns) / kMicrosecond)
        .add("dur", static_cast<double>(event.end_ns - event.begin_ns) / kMicrosecond)
        .open("args", '{');
  };
  json.open("", '[');
  add_name("process_name", kHost, 0, "spmm");
  open_interval({.name = "product", .end_ns = trace.end_ns}, kHost, 1);
  json.add("pairs", report.pairs)
      .add("blocks", report.c_blocks)
      .add("panels", report.num_panels)
      .add("kernel", report.plan.kernel)
      .add("device", report.device)
      .close('}')
      .close('}');
  int last = kHost;
  for (std::size_t thread = 1; const TraceTrack& track : trace.tracks) {
    const int process = track.device < 0 ? kHost : kHost + 1 + track.device;
    if (process != last) add_name("process_name", process, 0, text("GPU ", track.device, " ", track.owner));
    last = process;
    add_name("thread_name", process, thread, track.name);
    for (const TraceEvent& event : track.events) {
      open_interval(event, process, thread);
      if (event.work.bytes != 0) json.add("bytes", event.work.bytes);
      if (event.work.pairs != 0) json.add("pairs", event.work.pairs);
      if (event.work.panel != StageWork::kNoPanel) json.add("panel", event.work.panel);
      if (event.num != 1) json.add("joined", event.num);
      json.close('}').close('}');
    }
    ++thread;
  }
  return json.close(']').take() + "\n";
}

}  // namespace spmm::cli
