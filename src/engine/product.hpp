// One product: its operands, its limits and decisions, where its records go, and what it notes about itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/records/inputs.hpp"
#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "cuda/backend.hpp"
#include "plan/choice.hpp"
#include "spmm/multiply.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// The operands as the options have them: transposed while they are read, of A some block rows alone, and owned where
/// they are not the sources themselves, which must outlive them. Reads A once where the options name some rows.
/// Errors: as make_factor_source(); UsageError (no such rows).
Inputs as_multiplied(const Source& a, const Source& b, const ProductOptions& options, const Run& run);

/// Says in a plan which operands are transposed, and which rows are computed.
void describe_operands(const MatrixHeader& a, const ProductOptions& options, Plan& plan);

/// Clock, report and trace of one product, and what is known of its output.
struct ProductRecord {
  explicit ProductRecord(const ProductOptions& options) : trace(options.trace) {}

  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Trace* trace;
  std::optional<TraceLog> log{};  // only if the caller wants a trace
  StageClock clock{cuda::stage_hooks(), trace != nullptr ? &log.emplace(start) : nullptr};
  Report report{};
  std::vector<std::string> scratch_folders{};  // as in Run
  const cuda::DeviceArrays* arrays = nullptr;  // as in Run
  bool discards_result = false;                // as in plan::Limits
  bool stays_on_device = false;                // operands and result lie on one device
  bool runs_on_cpu = false;                    // once that is known

  void stay_on(const cuda::DeviceArrays& of_caller) {
    arrays = &of_caller;
    stays_on_device = true;
  }
  /// Whether all device memory comes from the caller.
  [[nodiscard]] bool brings_memory() const { return arrays != nullptr && arrays->call.allocator.serves_workspace; }

  /// Completes the report when everything is done.
  void close();
};

/// The backend the options insist on, by name or through a kernel; automatic where they leave it open.
/// Errors: UsageError for an unknown kernel, or one of another backend.
Backend wanted_backend(const ProductOptions& options);

/// Errors: ShapeError if the operands cannot be multiplied.
void check_shapes(const Source& a, const Source& b);

/// Host threads of a product with these options.
unsigned num_threads(const Options& options, unsigned num_cores);

/// Limits of a product with these options on this host, without devices. Errors: UsageError for an unknown kernel.
plan::Limits product_limits(const Options& options, std::uint64_t host_bytes);

/// Waits until the other products of the engine leave what this decision needs, or end_bytes if that is more, and
/// extra_bytes. The first call of a product counts, before anything is allocated; a later one does nothing. A product
/// out of core sizes its ranges by the limit: it takes everything (but what the decision has left to a result that
/// stays in memory). Errors: Interrupted.
void reserve_memory(const plan::Choice& choice, const cuda::DeviceRun& run, std::uint64_t extra_bytes = 0,
                    std::uint64_t end_bytes = 0, bool keeps_result = false);

/// Reads both operands, counts, chooses again with what was counted, which replaces `choice`, multiplies and writes.
ProductStats multiply_at_once(const Inputs& inputs, Output& output, plan::Choice& choice, const cuda::DeviceRun& run);

/// Takes over what a finished product knows of itself.
void fill_report(const Inputs& inputs, const ProductStats& stats, const Plan& plan, Report& report);

/// Whether a finished result may become visible. Values: out = how messages call it. Errors: SaturationError if
/// elements saturated and the options do not allow that; says where the first one is if that is found soon.
void check_saturation(const ProductOptions& options, const Report& report, Sink& sink, const std::string& out);

}  // namespace spmm
