#include "capi/c_report.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "spmm/multiply.hpp"

namespace spmm::capi {
namespace {

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

  void string(std::string_view value) {
    constexpr std::string_view kHex = "0123456789abcdef";
    out_ += '"';
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        (out_ += '\\') += c;
      } else if (byte < 0x20 || byte >= 0x7F) {  // texts of the library are ASCII; a device's name may be anything
        ((out_ += "\\u00") += kHex[byte >> 4]) += kHex[byte & 15];
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  std::string out_;
  bool is_first_ = true;
};

void add_matrix(JsonText& json, std::string_view name, const MatrixHeader& header, std::uint64_t num_blocks) {
  json.open(name, '{').add("n", header.n).add("m", header.m).add("blocks", num_blocks).close('}');
}

void add_plan(JsonText& json, const Plan& plan) {
  json.open("plan", '{')
      .add("backend", backend_name(plan.backend))
      .add("kernel", plan.kernel)
      .add("reason", plan.reason)
      .add("threads", plan.num_threads)
      .add("host_limit_bytes", plan.host_limit_bytes)
      .add("host_need_bytes", plan.host_need_bytes)
      .add("device_limit_bytes", plan.device_limit_bytes)
      .add("device_need_bytes", plan.device_need_bytes)
      .add("a_bands", plan.a_bands)
      .add("b_bands", plan.b_bands)
      .add("parts", plan.num_parts)
      .add("layout", plan.layout)
      .add("predicted_s", plan.predicted_s)
      .add("predicted_cuda_s", plan.predicted_cuda_s)
      .add("predicted_cpu_s", plan.predicted_cpu_s);
  json.open("candidates", '[');
  for (const Candidate& one : plan.candidates) {
    json.open("", '{').add("kernel", one.kernel).add("predicted_ms", one.predicted_ms).add("fits", one.fits).close('}');
  }
  json.close(']').close('}');
}

void add_devices(JsonText& json, const Plan& plan) {
  json.open("devices", '[');
  for (const DeviceShare& one : plan.devices) {
    json.open("", '{')
        .add("number", one.number)
        .add("name", one.name)
        .add("share", one.share)
        .add("pairs", one.pairs)
        .add("panels", one.num_panels)
        .add("blocks", one.num_blocks)
        .add("multiply_s", one.multiply_s)
        .close('}');
  }
  json.close(']');
}

void add_parts(JsonText& json, const Report& report) {
  json.open("parts", '[');
  for (const ResultPart& part : report.parts) {
    json.open("", '{')
        .add("file", part.file)
        .add("row_begin", part.row_begin)
        .add("row_end", part.row_end)
        .add("blocks", part.num_blocks)
        .add("bytes", part.bytes)
        .close('}');
  }
  json.close(']');
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

std::string report_json(const Report& report) {
  constexpr int kReportSchema = 1;
  JsonText json;
  json.open("", '{').add("schema", kReportSchema).add("version", version_string());
  add_matrix(json, "a", report.a, report.a.num_blocks);
  add_matrix(json, "b", report.b, report.b.num_blocks);
  add_matrix(json, "c", report.c, report.c_blocks);
  json.add("pairs", report.pairs)
      .add("gpairs_per_s", report.gpairs_per_s())
      .add("total_s", report.total_s)
      .add("backend", backend_name(report.plan.backend))
      .add("kernel", report.plan.kernel)
      .add("reason", report.plan.reason)
      .add("device", report.device)
      .add("threads", report.plan.num_threads)
      .add("panels", report.num_panels)
      .add("peak_host_bytes", report.peak_host_bytes)
      .add("peak_device_bytes", report.peak_device_bytes)
      .add("verified_blocks", report.verified_blocks);
  if (report.proof.num_columns > 0) add_proof(json, report.proof);
  add_plan(json, report.plan);
  add_devices(json, report.plan);
  add_parts(json, report);
  json.open("stages", '{');
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    json.open(kStageNames[s], '{').add("s", report.stages[s].s).add("bytes", report.stages[s].bytes).close('}');
  }
  return json.close('}').close('}').take();
}

}  // namespace spmm::capi
