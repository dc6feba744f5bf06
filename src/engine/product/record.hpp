// What a product notes about itself while it runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/machine_memory.hpp"
#include "base/run/stage_clock.hpp"
#include "base/run/trace_log.hpp"
#include "cuda/backend.hpp"
#include "spmm/options.hpp"
#include "spmm/report.hpp"

namespace spmm {

/// What a plan may know of the output.
struct OutputKind {
  bool discards_result = false;  // as in plan::Limits
  bool stays_on_device = false;  ///< arrays in device memory
  bool brings_memory = false;    ///< all device memory comes from the caller
};

/// Clock, report and trace of one product.
struct ProductRecord {
  explicit ProductRecord(const ProductOptions& options) : trace(options.trace) {}

  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Trace* trace;
  std::optional<TraceLog> log{};  // only if the caller wants a trace
  StageClock clock{cuda::stage_hooks(), trace != nullptr ? &log.emplace(start) : nullptr};
  Report report{};
  std::vector<std::string> scratch_folders{};  // as in Run
  const cuda::DeviceArrays* arrays = nullptr;  // as in Run
  OutputKind output{};

  /// Operands and result lie on a device.
  void stay_on(const cuda::DeviceArrays& of_caller) {
    arrays = &of_caller;
    output.stays_on_device = true;
    output.brings_memory = of_caller.call.allocator.serves_workspace;
  }

  /// Completes the report when everything is done.
  void close() {
    for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s] = clock.totals(static_cast<Stage>(s));
    report.stages[static_cast<std::size_t>(Stage::write)].bytes =
        kHeaderBytes + report.c_blocks * output_record_bytes(report.c.m);
    report.peak_host_bytes = peak_resident_bytes();
    const auto end = std::chrono::steady_clock::now();
    report.total_s = std::chrono::duration<double>(end - start).count();
    if (trace != nullptr) *trace = log->take(log->since_start(end));
  }
};

}  // namespace spmm
