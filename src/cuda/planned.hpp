// What plans have in common: a pipeline that stays on the device, and values that come later.
#pragma once

#include <memory>
#include <utility>

#include "cuda/arrays/arrays.hpp"
#include "cuda/backend.hpp"
#include "cuda/pipeline.hpp"
#include "kernels/chains/launch.hpp"

namespace spmm::cuda {

/// What a plan keeps on its device. Threads: one at a time, with the device current.
class KeptPlan {
 public:
  /// Values: expected: as Pipeline.
  KeptPlan(const DeviceRun& run, const plan::Choice& expected)
      : run_(run), pipeline_({.device = run_.device, .memory = run_.memory}, expected, run_) {}
  KeptPlan(const KeptPlan&) = delete;
  KeptPlan& operator=(const KeptPlan&) = delete;
  virtual ~KeptPlan() = default;

  /// Puts a multiplication on the pipeline's stream; waits for nothing.
  virtual void multiply(const kernels::ChainValues& values) = 0;

  [[nodiscard]] DeviceMemory& memory() { return pipeline_.memory(); }
  [[nodiscard]] const DeviceArrays& arrays() const { return *run_.arrays; }

 protected:
  DeviceRun run_;
  Pipeline pipeline_;
};

/// A plan as its callers see it, on any of their streams.
class PlanOnDevice : public PlannedProduct {
 public:
  explicit PlanOnDevice(OnDevice<KeptPlan> kept) : kept_(std::move(kept)) {}

  void multiply(const void* a, const void* b, void* c, CUstream_st* stream, const void* alpha,
                const void* beta) override {
    if (type() == ElementType::u16) check_not_scaled(alpha, beta);
    if (!is_aligned(a) || !is_aligned(b) || !is_aligned(c)) {
      throw UsageError("DevicePlan::multiply", "values do not begin at a multiple of 16 bytes", "pass a copy of them");
    }
    const DeviceGuard guard(kept_->memory().context().device());
    const Stream& own = kept_->memory().stream();
    own.wait_for(stream);
    kept_->multiply({.a = a, .b = b, .c = c, .old = c, .alpha = alpha, .beta = beta});
    own.hold(stream);
  }

  std::uint64_t count_saturated(const std::uint32_t* c, CUstream_st* stream) override {
    const DeviceGuard guard(kept_->memory().context().device());
    kept_->memory().stream().wait_for(stream);
    const DeviceBsrMatrix& pattern = *kept_->arrays().out;
    return cuda::count_saturated(type(), c, pattern.num_blocks * pattern.m * pattern.m, kept_->memory());
  }

 private:
  [[nodiscard]] ElementType type() const { return kept_->arrays().a.type; }

  OnDevice<KeptPlan> kept_;
};

/// A plan of a Kept. Errors: those of Kept.
template <class Kept, class... Arguments>
std::unique_ptr<PlannedProduct> make_plan(const DeviceRun& run, Arguments&&... arguments) {
  const DeviceGuard guard(run.device->device());
  OnDevice<KeptPlan> kept(new Kept(run, std::forward<Arguments>(arguments)...), {run.device->device()});
  return std::make_unique<PlanOnDevice>(std::move(kept));
}

}  // namespace spmm::cuda
