// One product: its operands, its limits and decisions, where its records go, and what it notes about itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/records/inputs.hpp"
#include "base/run/run.hpp"
#include "cuda/backend.hpp"
#include "io/factor_source.hpp"
#include "plan/execution.hpp"
#include "spmm/arrays.hpp"
#include "spmm/multiply.hpp"
#include "spmm/stream.hpp"
#include "verify/proof.hpp"

namespace spmm {

/// Two sources, each as it is or transposed while it is read, of A some block rows alone, and what their headers let
/// expect. The sources must outlive it.
class ProductOperands {
 public:
  ProductOperands(const Source& a, const Source& b)
      : inputs_{.a = a, .b = b}, expected_(plan::expected_statistics(a.header(), b.header())) {}
  /// Reads A once where the options name some rows. Errors: as make_factor_source(); UsageError (no such rows).
  ProductOperands(const Source& a, const Source& b, const ProductOptions& options, const Run& run)
      : rows_(checked_rows(options.rows, a.header().blocks_per_side())),
        transposes_a_(options.transpose_a),
        transposes_b_(options.transpose_b),
        inputs_{.a = factor(a, transposes_a_, rows_, run, factor_a_),
                .b = factor(b, transposes_b_, {}, run, factor_b_),
                .num_rows = rows_.end - rows_.first},
        expected_(plan::expected_statistics(inputs_.a.header(), inputs_.b.header(), inputs_.num_rows)) {}
  ProductOperands(const ProductOperands&) = delete;
  ProductOperands& operator=(const ProductOperands&) = delete;

  [[nodiscard]] const Inputs& inputs() const { return inputs_; }
  [[nodiscard]] const plan::Statistics& expected() const { return expected_; }

  /// Says in a plan which of them are transposed, and which rows are computed.
  void describe(Plan& plan) const {
    plan.transpose_a = transposes_a_;
    plan.transpose_b = transposes_b_;
    plan.rows = checked_rows(rows_, inputs_.a.header().blocks_per_side());
  }

 private:
  static const Source& factor(const Source& plain, bool is_transposed, RowRange rows, const Run& run,
                              std::unique_ptr<Source>& made) {
    if (!is_transposed && rows.covers(plain.header().blocks_per_side())) return plain;
    return *(made = io::make_factor_source(plain, is_transposed, rows, run));
  }

  RowRange rows_{};
  bool transposes_a_ = false;
  bool transposes_b_ = false;
  std::unique_ptr<Source> factor_a_;  // in front of inputs_, which refer to them
  std::unique_ptr<Source> factor_b_;
  Inputs inputs_;
  plan::Statistics expected_;
};

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

/// What is expected to run within limits that name the backend. Errors: what a refusal stands for.
plan::Execution plan_product(const plan::Statistics& expected, const plan::Limits& limits);

/// The decision on exact statistics. What it wants beyond the memory that the product has reserved is taken at once;
/// where other products hold it, the product makes do with its own. Only row-rank asks for so much more than is
/// expected of headers.
plan::Execution decide_within_share(const plan::Statistics& statistics, const plan::Limits& limits, const Run& run);

/// Waits until the other products of the engine leave what this decision needs, or end_bytes if that is more, and
/// extra_bytes. The first call of a product counts, before anything is allocated; a later one does nothing. A product
/// out of core sizes its ranges by the limit: it takes everything (but what the decision has left to a result that
/// stays in memory). Errors: Interrupted.
void reserve_memory(const plan::Execution& execution, const cuda::DeviceRun& run, std::uint64_t extra_bytes = 0,
                    std::uint64_t end_bytes = 0, bool keeps_result = false);

/// How the result is proven: all of it with verify_full, else the block rows of verify_blocks blocks of A.
struct PlannedProof {
  ProofSettings settings{};          ///< memory_bytes = 0: not at all
  std::uint64_t resident_bytes = 0;  ///< in addition to the product
  std::uint64_t end_bytes = 0;       ///< instead of the product, when it is done
};

/// Of the limit, for operands of the proof when the product is done.
inline constexpr std::uint64_t kProofShare = 4;

/// What is expected to run: within limits that name the backend, beside a result that stays in memory and a proof.
struct Prepared {
  plan::Limits limits{};  ///< what is left to the product
  PlannedProof proof{};
  plan::Execution execution{};
};

/// Errors: what a refusal stands for; for lack of host memory it names the least limit with which there is none.
Prepared prepare(const plan::Limits& limits, const plan::Statistics& expected, bool keeps_result,
                 const ProductOptions& product);

/// Bytes of the block rows of the result that are computed, and of what is kept of them, for evenly spread blocks.
std::uint64_t expected_result_bytes(const MatrixHeader& a, const MatrixHeader& b, const ProductOptions& product);

/// Whether a finished result may become visible. Values: out = how messages call it. Errors: SaturationError if
/// elements saturated and the options do not allow that; says where the first one is if that is found soon.
void check_saturation(const ProductOptions& options, const Report& report, Sink& sink, const std::string& out);

}  // namespace spmm
