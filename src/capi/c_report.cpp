#include "capi/c_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "spmm/multiply.hpp"

namespace spmm::capi {
namespace {

/// Bytes of the UTF-8 sequence that the text begins with; 0 where it begins with none. Shapes: text not empty.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return 0;
  }
  const unsigned second = byte(1);  // too long a form, a surrogate, beyond U+10FFFF
  const bool is_bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return is_bad ? 0 : length;
}

/// Writes members and items in order; whoever calls it keeps brackets balanced.
class JsonText {
 public:
  JsonText& open(std::string_view name, char bracket) {
    begin(name);
    out_ += bracket;
    is_first_ = true;
    return *this;
  }
  JsonText& close(char bracket) {
    out_ += bracket;
    is_first_ = false;
    return *this;
  }

  template <class T>
  JsonText& add(std::string_view name, const T& value) {
    begin(name);
    if constexpr (std::is_same_v<T, bool>) {
      out_ += value ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<T>) {
      number(value);
    } else {
      string(value);
    }
    return *this;
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void begin(std::string_view name) {
    if (!is_first_) out_ += ',';
    is_first_ = false;
    if (name.empty()) return;
    string(name);
    out_ += ':';
  }

  template <class T>
  void number(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) {
        out_ += "null";
        return;
      }
    }
    std::array<char, 32> digits{};
    out_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
  }

  /// What is no UTF-8, as names of files may be, becomes U+FFFD.
  void string(std::string_view value) {
    constexpr std::string_view kHex = "0123456789abcdef";
    out_ += '"';
    while (!value.empty()) {
      const auto byte = static_cast<unsigned char>(value.front());
      const std::size_t length = sequence_length(value);
      if (byte == '"' || byte == '\\') {
        (out_ += '\\') += value.front();
      } else if (byte < 0x20) {
        ((out_ += "\\u00") += kHex[byte >> 4]) += kHex[byte & 15];
      } else if (length == 0) {
        out_ += "\\ufffd";
      } else {
        out_ += value.substr(0, length);
      }
      value.remove_prefix(std::max<std::size_t>(length, 1));
    }
    out_ += '"';
  }

  std::string out_;
  bool is_first_ = true;
};

/// Members of one matrix but its last, which are the caller's; bytes are those of one file.
void open_matrix(JsonText& json, std::string_view name, const std::string& path, const MatrixHeader& header,
                 std::uint64_t num_blocks, std::uint64_t record) {
  json.open(name, '{')
      .add("path", path)
      .add("n", header.n)
      .add("m", header.m)
      .add("blocks", num_blocks)
      .add("bytes", kHeaderBytes + num_blocks * record);
}

void add_operand(JsonText& json, std::string_view name, const std::string& path, const MatrixHeader& header,
                 bool is_transposed) {
  open_matrix(json, name, path, header, header.num_blocks, input_record_bytes(header.m));
  json.add("transposed", is_transposed).close('}');
}

void add_parts(JsonText& json, const std::vector<ResultPart>& parts) {
  json.open("parts", '[');
  for (const ResultPart& part : parts) {
    std::array<char, 9> crc32{};
    std::snprintf(crc32.data(), crc32.size(), "%08x", part.crc32);
    json.open("", '{')
        .add("file", part.file)
        .add("row_begin", part.row_begin)
        .add("row_end", part.row_end)
        .add("blocks", part.num_blocks)
        .add("bytes", part.bytes)
        .add("crc32", std::string_view(crc32.data()))
        .close('}');
  }
  json.close(']');
}

void add_result(JsonText& json, const std::string& path, const Report& report) {
  open_matrix(json, "c", path, report.c, report.c_blocks, output_record_bytes(report.c.m));
  if (!report.parts.empty()) add_parts(json, report.parts);
  json.close('}');
}

/// Of a plan: what each device is expected to take; of a report: what it took.
void add_devices(JsonText& json, const std::vector<DeviceShare>& devices, bool has_run) {
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

void add_candidates(JsonText& json, const std::vector<Candidate>& candidates) {
  json.open("candidates", '[');
  for (const Candidate& one : candidates) {
    json.open("", '{').add("kernel", one.kernel).add("predicted_ms", one.predicted_ms).add("fits", one.fits).close('}');
  }
  json.close(']');
}

void add_plan(JsonText& json, const Plan& plan) {
  json.open("plan", '{')
      .add("backend", backend_name(plan.backend))
      .add("kernel", plan.kernel)
      .add("reason", reason_text(plan))
      .add("threads", plan.num_threads)
      .add("host_limit_bytes", plan.host_limit_bytes)
      .add("host_need_bytes", plan.host_need_bytes)
      .add("device_limit_bytes", plan.device_limit_bytes)
      .add("device_need_bytes", plan.device_need_bytes)
      .add("panel_bytes", plan.panel_bytes)
      .add("buffers", plan.num_buffers)
      .add("expected_pairs", plan.expected_pairs)
      .add("expected_output_blocks", plan.expected_output_blocks)
      .add("expected_panels", plan.expected_panels)
      .add("expected_kernels", expected_kernels_text(plan));
  add_devices(json, plan.devices, false);
  json.add("division", std::string_view("rows"))
      .add("parts", plan.num_parts)
      .add("a_bands", plan.num_a_slabs)
      .add("b_bands", plan.num_b_slabs)
      .add("scratch_bytes", plan.scratch_bytes)
      .add("why_no_scratch", plan.why_no_scratch)
      .add("exact", plan.exact)
      .add("proof_columns", plan.proof_columns)
      .add("proof_bytes", plan.proof_bytes)
      .add("proof_s", plan.proof_s)
      .add("layout", plan.layout)
      .add("dense_columns", plan.dense_columns);
  add_candidates(json, plan.candidates);
  json.add("predicted_ms", plan.predicted_ms)
      .add("predicted_s", plan.predicted_s)
      .add("predicted_cuda_s", plan.predicted_cuda_s)
      .add("predicted_cpu_s", plan.predicted_cpu_s)
      .close('}');
}

void add_proof(JsonText& json, const ProofReport& proof) {
  json.open("proof", '{')
      .add("columns", proof.num_columns)
      .add("key", proof.key)
      .add("rows", proof.num_rows)
      .add("saturated_elements", proof.num_saturated)
      .add("exact_block_rows", proof.num_exact_rows)
      .add("bounded_blocks", proof.num_bounded_blocks)
      .add("bounded_by", std::string_view(proof.num_bounded_blocks == 0 ? "none"
                                          : proof.bounded_by_device     ? "device"
                                                                        : "host"))
      .add("bounds_s", proof.bounds_s)
      .add("resident_bytes", proof.resident_bytes)
      .close('}');
}

}  // namespace

std::string report_json(const Report& report, const RunPaths& paths) {
  constexpr int kReportSchema = 1;
  const Plan& plan = report.plan;
  JsonText json;
  json.open("", '{').add("schema", kReportSchema).add("version", version_string());
  json.open("command", '[').close(']');
  add_operand(json, "a", paths.a, report.a, plan.transpose_a);
  add_operand(json, "b", paths.b, report.b, plan.transpose_b);
  add_result(json, paths.out, report);
  json.add("pairs", report.pairs)
      .add("saturated_elements", report.saturated_elements)
      .add("gpairs_per_s", report.gpairs_per_s())
      .add("total_s", report.total_s)
      .add("backend", backend_name(plan.backend))
      .add("kernel", plan.kernel)
      .add("reason", reason_text(plan))
      .add("device", report.device);
  if (!plan.devices.empty()) add_devices(json, plan.devices, plan.devices.size() > 1);
  json.add("threads", plan.num_threads);
  add_plan(json, plan);
  json.add("panels", report.num_panels)
      .add("peak_host_bytes", report.peak_host_bytes)
      .add("peak_device_bytes", report.peak_device_bytes)
      .add("verified_blocks", report.verified_blocks);
  if (report.proof.num_columns > 0) add_proof(json, report.proof);
  json.add("kept_a", report.kept_a).add("kept_b", report.kept_b);
  json.open("stages", '{');
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    json.open(kStageNames[s], '{').add("s", report.stages[s].s).add("bytes", report.stages[s].bytes).close('}');
  }
  return json.close('}').close('}').take();
}

}  // namespace spmm::capi
