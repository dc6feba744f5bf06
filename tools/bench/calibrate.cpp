// spmm-bench --calibrate: measures the rates of a GPU.
#include "tools/bench/calibrate.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cuda/backend.hpp"
#include "spmm/error.hpp"
#include "tools/bench/rate_fit.hpp"
#include "tools/common/measurement.hpp"

namespace spmm::tools {
namespace {

cuda::DeviceInfo device_of(const Options& options) {
  std::string why_not;
  const auto context = cuda::find_device(options.device, why_not);
  if (context == nullptr) throw DeviceError("--calibrate", why_not, "run it on a machine with a CUDA device");
  return cuda::describe(*context);
}

/// The run with the median time of the step's stages.
MeasuredStep measure(const RateStep& step, const BenchOptions& options) {
  BenchOptions how = options;
  how.kernels = {step.kernel};
  how.baselines = {step.kernel};  // times only: the tests of kernels compare results
  how.checksum = true;
  MeasuredStep one{.step = step, .refusal = {}, .report = {}};
  CaseResult result = run_case(step.what, how, {}, [](const CaseResult&, const KernelResult&) {});
  KernelResult& kernel = result.kernels.front();
  one.refusal = kernel.refusal;
  if (!kernel.ran()) return one;
  std::sort(kernel.runs.begin(), kernel.runs.end(),
            [&](const Report& x, const Report& y) { return step_ms(step, x) < step_ms(step, y); });
  one.report = kernel.runs[kernel.runs.size() / 2];
  one.ms = step_ms(step, one.report);
  return one;
}

}  // namespace

Json calibrate(const BenchOptions& options, const std::vector<std::string>& command) {
  const cuda::DeviceInfo device = device_of(options.multiply);
  BenchOptions how = options;
  how.multiply.backend = Backend::cuda;
  how.baseline_backend = Backend::cuda;
  std::vector<MeasuredStep> steps;
  for (const RateStep& step : rate_steps()) steps.push_back(measure(step, how));
  const plan::DeviceRates rates = fit_rates(plan::device_rates(device.capability), steps);
  std::cout << rate_table(steps) << "\nRow of " << device.name << ", compute capability " << device.capability
            << ", for src/plan/models/device_rates.cpp:\n\n"
            << rates_initialiser(rates, steps);
  auto json = measurement_head("spmm-bench", command);
  json["device"] = device.name;
  json["runs"] = options.num_runs;
  json["calibration"] = rates_json(rates, device.capability, device.name, steps);
  return json;
}

}  // namespace spmm::tools
