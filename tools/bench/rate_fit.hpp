// From measured times to the rates that the planner predicts CUDA kernels with (src/plan/models/device_rates.hpp).
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/models/device_rates.hpp"
#include "spmm/report.hpp"
#include "tools/bench/suites.hpp"
#include "tools/common/json.hpp"

namespace spmm::tools {

/// The stages that a step looks at.
enum class RateStages : std::uint8_t {
  build,     ///< build, plan, and count where that only counts: what every kernel needs before
  listing,   ///< count where pairs are listed then, in pair-list
  products,  ///< multiply, compact
};

/// A product whose time hangs on one rate more than on the others.
struct RateStep {
  std::string rate;        ///< a name of plan::named_rates()
  std::uint32_t side = 0;  ///< of the row of rates by side; 0 = a rate of the device
  std::string kernel;      ///< run by name
  RateStages stages = RateStages::products;
  BenchCase what;
};

/// All steps, in the order in which they are fitted.
std::vector<RateStep> rate_steps();

/// A step that was run, and what came of it.
struct MeasuredStep {
  RateStep step;
  std::string refusal;    ///< why it did not run; "" if it did
  Report report;          ///< of the run with the median time
  double ms = 0;          ///< of the step's stages
  double old_ms = 0;      ///< predicted with the rates before
  double new_ms = 0;      ///< with those found
  bool is_found = false;  ///< the rate is measured; else it keeps its value, because its share of the time is too small
};

/// Milliseconds of the step's stages in a run.
double step_ms(const RateStep& step, const Report& report);

/// What the planner predicts for them.
double predicted_step_ms(const RateStep& step, const Report& report, const plan::DeviceRates& rates);

/// Rates with which the predictions of all steps are what was measured: each rate is scaled to meet its own step, again
/// and again until none moves. A rate that takes less than a fifth of its step's time stays as it was. Fills the
/// predictions of `steps`.
plan::DeviceRates fit_rates(const plan::DeviceRates& before, std::span<MeasuredStep> steps);

/// {capability, board, rates: {...}, sides: [...], measured: [names], scaled: [names], steps: [...]}.
Json rates_json(const plan::DeviceRates& rates, int capability, const std::string& board,
                std::span<const MeasuredStep> steps);

/// The row as src/plan/models/device_rates.cpp has it: an initialiser of DeviceRates.
std::string rates_initialiser(const plan::DeviceRates& rates, std::span<const MeasuredStep> steps);

/// A line of Markdown for each step: measured, predicted before and after.
std::string rate_table(std::span<const MeasuredStep> steps);

}  // namespace spmm::tools
