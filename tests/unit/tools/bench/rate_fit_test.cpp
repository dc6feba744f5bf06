// The fit of spmm-bench --calibrate: from times that made-up rates predict back to these rates.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "plan/models/device_models.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "tools/bench/rate_fit.hpp"

namespace {

using namespace spmm;
using tools::MeasuredStep;
using tools::RateStages;

/// A run of the step by a device with these rates, evenly spread.
Report made_up_report(const tools::RateStep& step, const plan::DeviceRates& rates) {
  Report report;
  report.a = step.what.header;
  report.b = step.what.header;
  const plan::Statistics expected = plan::expected_statistics(report.a, report.b);
  report.pairs = static_cast<std::uint64_t>(expected.num_pairs);
  report.c_blocks = static_cast<std::uint64_t>(expected.num_c_blocks);
  const auto set = [&](Stage stage, RateStages stages) {
    tools::RateStep part = step;
    part.stages = stages;
    report.stages[static_cast<std::size_t>(stage)].s = predicted_step_ms(part, report, rates) * 1e-3;
  };
  set(Stage::build, RateStages::build);
  if (step.kernel == "pair-list") set(Stage::count, RateStages::listing);
  set(Stage::multiply, RateStages::products);
  return report;
}

std::vector<MeasuredStep> measured_by(const plan::DeviceRates& rates) {
  std::vector<MeasuredStep> steps;
  for (const tools::RateStep& step : tools::rate_steps()) {
    MeasuredStep one{.step = step, .refusal = {}, .report = made_up_report(step, rates)};
    one.ms = step_ms(step, one.report);
    steps.push_back(one);
  }
  return steps;
}

/// The row that differs from the measured one in the rates that steps fit, some up, some down.
plan::DeviceRates other_rates() {
  plan::DeviceRates rates = plan::device_rates(90);
  rates.build_bytes_per_ms *= 0.6;
  rates.build_blocks_per_ms *= 1.7;
  rates.launches_ms *= 1.3;
  rates.esc_list_pairs_per_ms *= 0.5;
  rates.small_sums_per_ms *= 1.5;
  rates.tensor_terms_per_ms *= 0.4;
  rates.tiled_terms_per_ms *= 2;
  for (plan::SideRates& side : rates.sides) {
    side.gustavson_pairs_per_ms *= 0.7;
    side.esc_pairs_per_ms *= 0.8;
    side.ranked_pairs_per_ms *= 1.4;
  }
  return rates;
}

}  // namespace

TEST_CASE("calibrate: the rates behind the times are found", "[tools][bench]") {
  const plan::DeviceRates wanted = other_rates();
  std::vector<MeasuredStep> steps = measured_by(wanted);
  const plan::DeviceRates found = tools::fit_rates(plan::device_rates(90), steps);
  for (const MeasuredStep& one : steps) {
    INFO(one.step.rate << " of side " << one.step.side << ": " << one.ms << " ms, before " << one.old_ms);
    CHECK(one.new_ms == Approx(one.ms).epsilon(0.02));
  }
  for (const plan::NamedRate& rate : plan::named_rates()) {
    INFO(rate.name);
    if (rate.of_device != nullptr) {
      CHECK(found.*rate.of_device == Approx(wanted.*rate.of_device).epsilon(0.05));
      continue;
    }
    for (std::size_t s = 0; s < wanted.sides.size(); ++s) {
      CHECK(found.sides[s].*rate.of_side == Approx(wanted.sides[s].*rate.of_side).epsilon(0.05));
    }
  }
}

TEST_CASE("calibrate: right predictions move nothing, refusals neither", "[tools][bench]") {
  const plan::DeviceRates& rates = plan::device_rates(80);
  std::vector<MeasuredStep> steps = measured_by(rates);
  for (MeasuredStep& one : steps) {
    if (one.step.kernel == "dense-tensor") one.refusal = "needs Hopper";
  }
  const plan::DeviceRates found = tools::fit_rates(rates, steps);
  CHECK(found.tensor_terms_per_ms == rates.tensor_terms_per_ms);
  CHECK(found.build_blocks_per_ms == Approx(rates.build_blocks_per_ms));
  CHECK(found.of_side(24).esc_pairs_per_ms == Approx(rates.of_side(24).esc_pairs_per_ms));
  const auto json = tools::rates_json(found, 80, "Made-up", steps);
  CHECK(test::schema_problems(test::read_schema("rates")["properties"]["calibration"], json).empty());
  CHECK(json["capability"] == 80);
  CHECK(json["measured"].size() + json["scaled"].size() ==
        json["rates"].size() + (json["sides"][0].size() - 1) * json["sides"].size());
  const std::set<std::string> scaled(json["scaled"].begin(), json["scaled"].end());
  CHECK(scaled.contains("tensor_terms_per_ms"));
  CHECK(scaled.contains("tile_stage_ms"));
  CHECK_FALSE(scaled.contains("build_bytes_per_ms"));
  const std::string row = tools::rates_initialiser(found, steps);
  CHECK(row.find(".tile_stage_ms = ") != std::string::npos);
  CHECK(row.find(".sides = {{{4, ") != std::string::npos);
  CHECK(tools::rate_table(steps).find("refused: needs Hopper") != std::string::npos);
}
