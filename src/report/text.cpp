// Reports and plans in words, and files that hold a report.
#include "report/text.hpp"

#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <span>

#include "base/text.hpp"
#include "io/files/output_file.hpp"
#include "io/files/paths.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "spmm/saturate.hpp"

namespace spmm::cli {
namespace {

std::uint64_t file_bytes(const MatrixHeader& header, std::uint64_t record) {
  return kHeaderBytes + header.num_blocks * record;
}

/// "0 NVIDIA H200 50 %, 1 NVIDIA H200 50 %".
std::string devices_text(const std::vector<DeviceShare>& devices) {
  std::string all;
  for (const DeviceShare& one : devices) {
    all += text(all.empty() ? "" : ", ", one.number, " ", one.name, format(" %.3g %%", 100 * one.share));
  }
  return all;
}

/// What --verify full has proven.
std::string proof_text(const ProofReport& proof) {
  return text("every row proven", proof.num_exact_rows == 0 ? "" : text(", ", proof.num_exact_rows, " computed again"),
              proof.key == 0 ? "" : text(" (key ", proof.key, ")"));
}

/// "block rows 0:1000, "; empty for all of them.
std::string rows_text(RowRange rows, std::uint32_t num_rows) {
  return rows.covers(num_rows) ? "" : text("block rows ", rows.first, ":", rows.end, ", ");
}

/// Writes to a device, such as a terminal, which need not be able to seek. Errors: OutputError.
void write_to_device(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw OutputError(path, "writing to the device failed", "choose another path for it");
}

/// Empty for a product at once.
std::string out_of_core_line(const Plan& plan) {
  if (plan.scratch_bytes == 0) return {};
  std::string line = text("\nout of core: A in ", plan.num_ranges, " ranges of block rows, ");
  if (plan.num_slabs == 1) {
    line += "of B the block rows that each needs";
  } else {
    line += text("some with B in up to ", plan.num_slabs, " slabs of block rows");
  }
  return line + text("\nscratch files: ", human_bytes(plan.scratch_bytes),
                     " in the output's folder or TMPDIR, both operands sorted");
}

/// "1 element", "2,300 elements".
std::string num_elements(std::uint64_t num) {
  std::string digits = text(num);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return text(digits, num == 1 ? " element" : " elements");
}

/// Empty if a proof is sure to fit.
std::string proof_limit_line(const Plan& plan) {
  if (plan.safe_limit_bytes <= plan.host_limit_bytes) return {};
  return text("\nmay not fit: if elements saturate, the proof is sure to fit a memory limit of ",
              human_bytes(plan.safe_limit_bytes), " (", plan.safe_limit_bytes, " bytes)");
}

}  // namespace

std::string format(const char* pattern, ...) {
  char out[256];
  std::va_list values;
  va_start(values, pattern);
  std::vsnprintf(out, sizeof out, pattern, values);
  va_end(values);
  return out;
}

const char* assumption(const Plan& plan) {
  return plan.sampled ? "by a sample of the indices" : "if the blocks are evenly spread";
}

std::string saturation_text(std::uint64_t num_saturated) {
  return text(num_elements(num_saturated), " at the limit ", kMaxVal);
}

std::string summary_line(const Report& report) {
  const auto operand = [](const char* name, const MatrixHeader& header, bool is_transposed) {
    return text(name, " ", header.num_blocks, " blocks", is_transposed ? " transposed" : "");
  };
  const double pairs_per_s = report.total_s > 0 ? static_cast<double>(report.pairs) / report.total_s : 0;
  return text("n ", report.c.n, ", m ", report.c.m, ": ", operand("A", report.a, report.plan.transpose_a), " x ",
              operand("B", report.b, report.plan.transpose_b), " -> C ",
              rows_text(report.plan.rows, report.c.blocks_per_side()), report.c_blocks, " blocks, ", report.pairs,
              " pairs, ", human_number(pairs_per_s), format("pair/s, %.3f s, ", report.total_s),
              backend_name(report.plan.backend), " ", report.plan.kernel, " on ", report.device,
              report.plan.gpu_failed ? " (" + report.plan.why_backend + ")" : "",
              report.saturated_elements > 0 ? ", " + saturation_text(report.saturated_elements) : "",
              report.dropped_elements > 0 ? ", " + num_elements(report.dropped_elements) + " dropped" : "",
              report.proof.is_proven ? ", " + proof_text(report.proof) : "",
              report.verified_blocks > 0 ? text(", ", report.verified_blocks, " blocks of chosen rows verified") : "");
}

std::string stage_table(const Report& report) {
  std::string table = format("%-10s %10s %12s %12s\n", "stage", "seconds", "bytes", "rate");
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    const StageTotals& totals = report.stages[s];
    if (totals.s == 0 && totals.bytes == 0) continue;
    const bool has_rate = totals.bytes > 0 && totals.s > 0;
    const std::string rate =
        has_rate ? human_bytes(static_cast<std::uint64_t>(static_cast<double>(totals.bytes) / totals.s)) + "/s" : "";
    table += format("%-10s %10.4f", kStageNames[s].data(), totals.s);
    if (totals.bytes > 0) table += format(" %12s", human_bytes(totals.bytes).c_str());
    table += (rate.empty() ? "" : format(" %12s", rate.c_str())) + "\n";
  }
  table += format("%-10s %10.4f   (stages overlap)\n", "total", report.total_s);
  table += text("panels ", report.num_panels, ", peak host memory ", human_bytes(report.peak_host_bytes));
  if (report.peak_device_bytes > 0) table += ", peak device memory " + human_bytes(report.peak_device_bytes);
  return table + "\n";
}

std::string plan_text(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan) {
  const auto size = [](const MatrixHeader& header) {
    return text(header.num_blocks, " blocks, ", human_bytes(file_bytes(header, input_record_bytes(header.m))));
  };
  const double output_bytes = plan.expected_output_blocks * static_cast<double>(output_record_bytes(a.m));
  std::string lines = text("matrices: n ", a.n, ", m ", a.m, ", ", a.blocks_per_side(), " x ", a.blocks_per_side(),
                           " blocks\nA: ", size(a), plan.transpose_a ? ", transposed while it is read" : "",
                           "\nB: ", size(b), plan.transpose_b ? ", transposed while it is read" : "", "\n");
  if (!plan.rows.covers(a.blocks_per_side())) {
    lines += text("C: block rows ", plan.rows.first, ":", plan.rows.end, " alone\n");
  }
  lines += text("backend: ", backend_name(plan.backend), " (", plan.why_backend, ")\nkernel: ", plan.kernel,
                out_of_core_line(plan), proof_limit_line(plan), "\nthreads: ", plan.num_threads, "\n");
  lines += text("host memory: ", human_bytes(plan.host_need_bytes), " needed, limit ",
                human_bytes(plan.host_limit_bytes), "\n");
  if (plan.backend == Backend::cuda) {
    lines += text("device memory: ", human_bytes(plan.device_need_bytes), " needed, limit ",
                  human_bytes(plan.device_limit_bytes), "\n");
  }
  if (plan.devices.size() > 1) {
    lines += text("devices: ", devices_text(plan.devices), " of the pairs; memory of each\n");
  }
  lines += plan.exact ? "counted: " : text("expected ", assumption(plan), ": ");
  lines += format(plan.exact ? "%.4g pairs, %.4g output blocks at most" : "%.4g pairs, %.4g output blocks",
                  plan.expected_pairs, plan.expected_output_blocks);
  lines += text(", ", human_bytes(static_cast<std::uint64_t>(output_bytes)), " of output\n");
  if (plan.proof_s > 0) {
    lines += format("proof: %.2g s of each thread; rows with saturated or dropped elements are computed again\n",
                    plan.proof_s);
  }
  lines += format("predicted: %.3g s", plan.predicted_s);
  return lines + (plan.exact ? "\n" : text(", ", assumption(plan), "\n"));
}

void write_json_text(const std::string& path, const std::string& json) {
  if (path == "-") {
    std::cout << json << std::endl;
    return;
  }
  write_text(path, json + "\n");
}

void write_text(const std::string& path, const std::string& content) {
  if (io::find_target(path, false).is_device) return write_to_device(path, content);
  io::OutputFile file(path, {});
  file.expect_bytes(content.size());
  file.write_at(0, std::as_bytes(std::span(content)));
  file.finish();
  file.publish();
}

}  // namespace spmm::cli
