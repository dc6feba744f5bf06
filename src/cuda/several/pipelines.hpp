// The pipelines of several devices for one product, and what they did together.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/device/errors.hpp"
#include "cuda/pipeline.hpp"

namespace spmm::cuda {

/// One pipeline for each device of a run, run.device first.
class DevicePipelines {
 public:
  DevicePipelines(const plan::Execution& expected, const plan::Decide& decide, const DeviceRun& run);

  [[nodiscard]] std::size_t size() const { return uses_.size(); }
  [[nodiscard]] Pipeline& pipeline(std::size_t d) { return *pipelines_[d]; }
  [[nodiscard]] std::vector<UploadTarget> upload_targets();

  /// compute(d) for each device with that device current: a thread for each but the first, which has this one. Then
  /// adds the times of the stages on all devices. Failures go to state.fail(error), which makes the others stop.
  /// Errors: of state.rethrow_failure().
  template <class State>
  std::vector<ProductStats> on_all(const std::function<ProductStats(std::size_t d)>& compute, State& state) {
    std::vector<ProductStats> stats(size());
    start_all([&](std::size_t d) { stats[d] = compute(d); },
              [&](std::exception_ptr error) { state.fail(std::move(error)); });
    state.rethrow_failure();
    collect();
    return stats;
  }

  /// What the devices did together; `all` has pairs of the whole product.
  /// Values: execution = that of the first device with the panels of all.
  [[nodiscard]] ProductStats total(const std::vector<ProductStats>& stats, std::uint64_t num_pairs,
                                   plan::Execution& execution) const;

 private:
  /// Ends a pipeline with its device current.
  struct OnItsDevice {
    int device = 0;
    void operator()(Pipeline* pipeline) const noexcept;
  };

  void start_all(const std::function<void(std::size_t d)>& compute,
                 const std::function<void(std::exception_ptr)>& fail);
  void collect();
  void compute_one(std::size_t d, const std::function<void(std::size_t d)>& compute,
                   const std::function<void(std::exception_ptr)>& fail) const noexcept;

  const DeviceRun& run_;
  std::vector<DeviceUse> uses_;
  std::vector<std::unique_ptr<Pipeline, OnItsDevice>> pipelines_;
  std::vector<double> multiply_s_;
};

}  // namespace spmm::cuda
