// Fits the planner's rates for CUDA kernels to measured times.
#include "tools/bench/rate_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text.hpp"
#include "plan/memory/dense_plan.hpp"
#include "plan/models/device_models.hpp"
#include "plan/registry.hpp"
#include "tools/bench/report.hpp"

namespace spmm::tools {
namespace {

constexpr double kSmallestShare = 0.2;  // of a step's time: a rate with less would take up the errors of all others
constexpr double kAlmostNothing = 1e9;  // a rate so much higher leaves no time
constexpr int kSweeps = 30;
constexpr double kLargestFactor = 64;  // between the rates before and those found

/// Block rows and blocks of a uniform product with many pairs for each C block, by padded side.
struct SideShape {
  std::uint32_t side;
  std::uint32_t nb;
  std::uint32_t k;
};
constexpr std::array<SideShape, 7> kDense = {{{4, 2048, 500'000},
                                              {8, 1024, 250'000},
                                              {16, 512, 60'000},
                                              {24, 384, 30'000},
                                              {32, 256, 20'000},
                                              {48, 192, 12'000},
                                              {64, 128, 6'000}}};
/// The same with about one pair for each C block: pairs are listed.
constexpr std::array<SideShape, 7> kSparse = {{{4, 1 << 18, 4'000'000},
                                               {8, 1 << 17, 2'000'000},
                                               {16, 1 << 17, 500'000},
                                               {24, 1 << 16, 200'000},
                                               {32, 1 << 16, 150'000},
                                               {48, 1 << 15, 70'000},
                                               {64, 1 << 14, 30'000}}};

constexpr std::uint32_t kMaxElement = 1000;

BenchCase uniform_case(const std::string& name, std::uint32_t m, std::uint32_t nb, std::uint32_t k) {
  BenchCase one;
  one.name = name;
  one.header = {.n = nb * m, .m = m, .num_blocks = k};
  one.max_value = kMaxElement;
  return one;
}

const plan::NamedRate& named(const std::string& rate) {
  for (const plan::NamedRate& one : plan::named_rates()) {
    if (one.name == rate) return one;
  }
  throw std::logic_error("no rate is called " + rate);
}

/// The rate of a step within a row of rates.
double& rate_of(plan::DeviceRates& rates, const RateStep& step) {
  const plan::NamedRate& name = named(step.rate);
  if (name.of_device != nullptr) return rates.*name.of_device;
  for (plan::SideRates& side : rates.sides) {
    if (side.side == step.side) return side.*name.of_side;
  }
  throw std::logic_error(text("no rates of side ", step.side));
}

plan::Statistics statistics_of(const RateStep& step, const Report& report) {
  plan::Statistics s = plan::expected_statistics(report.a, report.b);
  s.num_pairs = static_cast<double>(report.pairs);
  s.num_c_blocks = static_cast<double>(report.c_blocks);
  s.max_element = step.what.max_value;
  return s;
}

bool lists_pairs(const RateStep& step) {
  return step.kernel == "pair-list";
}

bool is_time(const std::string& rate) {
  return rate.ends_with("_ms") && !rate.ends_with("_per_ms");
}

/// How much of a step's predicted time its rate stands for.
double share_of(const MeasuredStep& one, const plan::DeviceRates& rates) {
  plan::DeviceRates without = rates;
  rate_of(without, one.step) *= is_time(one.step.rate) ? 1 / kAlmostNothing : kAlmostNothing;
  const double all = predicted_step_ms(one.step, one.report, rates);
  return all > 0 ? 1 - predicted_step_ms(one.step, one.report, without) / all : 0;
}

/// The value of a step's rate that makes its prediction what was measured; what is left for it is at least a tenth of
/// the measured time, so that errors of the other rates move it, but not without bound.
double value_for(const MeasuredStep& one, const plan::DeviceRates& rates, double before) {
  plan::DeviceRates tried = rates;
  double& rate = rate_of(tried, one.step);
  const double now = rate;
  const double all = predicted_step_ms(one.step, one.report, tried);
  rate = is_time(one.step.rate) ? now / kAlmostNothing : now * kAlmostNothing;
  const double others = predicted_step_ms(one.step, one.report, tried);
  const double part = all - others;
  const double wanted = std::max(one.ms - others, 0.1 * one.ms);
  if (part <= 0) return now;
  const double found = is_time(one.step.rate) ? now * wanted / part : now * part / wanted;
  return std::clamp(found, before / kLargestFactor, before * kLargestFactor);
}

std::string number_text(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.3g", value);
  return out.data();
}

std::string step_name(const RateStep& step) {
  return step.side == 0 ? step.rate : text(step.rate, " of side ", step.side);
}

bool is_measured(std::span<const MeasuredStep> steps, std::string_view rate, std::uint32_t side) {
  return std::any_of(steps.begin(), steps.end(), [&](const MeasuredStep& one) {
    return one.is_found && one.step.rate == rate && one.step.side == side;
  });
}

/// Calls each(name, value, is measured) for all rates; names of sides end in "of side 8".
template <class Each>
void for_all_rates(const plan::DeviceRates& rates, std::span<const MeasuredStep> steps, const Each& each) {
  for (const plan::NamedRate& rate : plan::named_rates()) {
    if (rate.of_device != nullptr) {
      each(std::string(rate.name), rates.*rate.of_device, is_measured(steps, rate.name, 0));
      continue;
    }
    for (const plan::SideRates& side : rates.sides) {
      each(text(rate.name, " of side ", side.side), side.*rate.of_side, is_measured(steps, rate.name, side.side));
    }
  }
}

}  // namespace

std::vector<RateStep> rate_steps() {
  using enum RateStages;
  std::vector<RateStep> steps = {
      {"launches_ms", 0, "row-spread", build, uniform_case("tiny", 8, 64, 100)},
      {"build_bytes_per_ms", 0, "pair-list", build, uniform_case("long records", 64, 100'000, 30'000)},
      {"build_blocks_per_ms", 0, "row-spread", build, uniform_case("many blocks", 1, 4096, 4'000'000)},
      {"esc_list_pairs_per_ms", 0, "pair-list", listing, uniform_case("many pairs", 1, 1 << 18, 4'000'000)},
      {"small_sums_per_ms", 0, "small-blocks", products, uniform_case("dense rows", 3, 2048, 500'000)},
      {"small_hash_pairs_per_ms", 0, "small-blocks", products, uniform_case("hashed rows", 2, 1 << 20, 6'000'000)},
      {"small_sort_pairs_per_ms", 0, "small-blocks", products, uniform_case("sorted rows", 1, 1 << 17, 2'000'000)},
      {"tensor_terms_per_ms", 0, "dense-tensor", products, uniform_case("complete", 8, 1024, 1 << 20)},
      {"tiled_terms_per_ms", 0, "dense-tiled", products, uniform_case("complete, smaller", 8, 512, 1 << 18)},
  };
  for (const SideShape& shape : kDense) {
    const auto dense = uniform_case(text("dense, m = ", shape.side), shape.side, shape.nb, shape.k);
    steps.push_back({"gustavson_pairs_per_ms", shape.side, "row-spread", products, dense});
    if (shape.side <= 16) steps.push_back({"ranked_pairs_per_ms", shape.side, "row-rank", products, dense});
  }
  for (const SideShape& shape : kSparse) {
    steps.push_back({"esc_pairs_per_ms", shape.side, "pair-list", products,
                     uniform_case(text("sparse, m = ", shape.side), shape.side, shape.nb, shape.k)});
  }
  return steps;
}

double step_ms(const RateStep& step, const Report& report) {
  const auto ms = [&](Stage stage) { return report.stage(stage).s * 1000; };
  const double count = ms(Stage::count);
  switch (step.stages) {
    case RateStages::build:
      return ms(Stage::build) + ms(Stage::plan) + (lists_pairs(step) ? 0 : count);
    case RateStages::listing:
      return count;
    case RateStages::products:
      return ms(Stage::multiply) + ms(Stage::compact);
  }
  throw std::logic_error("unknown stages");
}

double predicted_step_ms(const RateStep& step, const Report& report, const plan::DeviceRates& rates) {
  const plan::Statistics s = statistics_of(step, report);
  const double build = plan::build_ms(s, rates);
  if (step.stages == RateStages::build) return build;
  const auto kernel_ms = [&](const plan::DeviceRates& with) {
    return plan::row_of(*plan::kernel_named(step.kernel))
        .device_ms(s,
                   {.panel_rows = s.nb(),
                    .group_columns = s.nb(),
                    .num_planes = plan::num_dense_planes(static_cast<std::uint32_t>(s.max_element))},
                   with);
  };
  const double all = kernel_ms(rates);
  if (!lists_pairs(step)) return all - build;
  plan::DeviceRates without = rates;
  without.esc_ms = 0;
  without.esc_list_pairs_per_ms = rates.esc_list_pairs_per_ms * kAlmostNothing;
  const double listed = kernel_ms(without);
  return step.stages == RateStages::listing ? all - listed : listed - build;
}

plan::DeviceRates fit_rates(const plan::DeviceRates& before, std::span<MeasuredStep> steps) {
  plan::DeviceRates rates = before;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (const MeasuredStep& one : steps) {
      if (!one.refusal.empty()) continue;
      plan::DeviceRates first = before;
      rate_of(rates, one.step) = value_for(one, rates, rate_of(first, one.step));
    }
  }
  for (MeasuredStep& one : steps) {
    one.is_found = one.refusal.empty() && share_of(one, rates) >= kSmallestShare;
    if (one.is_found) continue;
    plan::DeviceRates first = before;
    rate_of(rates, one.step) = rate_of(first, one.step);
  }
  for (MeasuredStep& one : steps) {
    if (!one.refusal.empty()) continue;
    one.old_ms = predicted_step_ms(one.step, one.report, before);
    one.new_ms = predicted_step_ms(one.step, one.report, rates);
  }
  return rates;
}

Json rates_json(const plan::DeviceRates& rates, int capability, const std::string& board,
                std::span<const MeasuredStep> steps) {
  Json json = {{"capability", capability}, {"board", board}, {"rates", Json::object()}, {"sides", Json::array()}};
  for (const plan::NamedRate& rate : plan::named_rates()) {
    if (rate.of_device != nullptr) json["rates"][std::string(rate.name)] = rates.*rate.of_device;
  }
  for (const plan::SideRates& side : rates.sides) {
    Json one = {{"side", side.side}};
    for (const plan::NamedRate& rate : plan::named_rates()) {
      if (rate.of_side != nullptr) one[std::string(rate.name)] = side.*rate.of_side;
    }
    json["sides"].push_back(std::move(one));
  }
  json["measured"] = Json::array();
  json["scaled"] = Json::array();
  for_all_rates(rates, steps, [&](const std::string& name, double, bool measured) {
    json[measured ? "measured" : "scaled"].push_back(name);
  });
  json["steps"] = Json::array();
  for (const MeasuredStep& one : steps) {
    Json step = {{"rate", step_name(one.step)}, {"kernel", one.step.kernel}, {"case", case_json(one.step.what)}};
    if (!one.refusal.empty()) {
      step["refused"] = one.refusal;
    } else {
      step.update({{"pairs", one.report.pairs},
                   {"c_blocks", one.report.c_blocks},
                   {"measured_ms", one.ms},
                   {"predicted_before_ms", one.old_ms},
                   {"predicted_ms", one.new_ms},
                   {"is_measured", one.is_found}});
    }
    json["steps"].push_back(std::move(step));
  }
  return json;
}

std::string rates_initialiser(const plan::DeviceRates& rates, std::span<const MeasuredStep> steps) {
  std::string lines = "DeviceRates{\n";
  for (const plan::NamedRate& rate : plan::named_rates()) {
    if (rate.of_device == nullptr) continue;
    lines += text("    .", rate.name, " = ", number_text(rates.*rate.of_device), ",",
                  is_measured(steps, rate.name, 0) ? "" : "  // scaled", "\n");
  }
  std::string scaled;
  for (std::size_t s = 0; s < rates.sides.size(); ++s) {
    const plan::SideRates& side = rates.sides[s];
    lines += text(s == 0 ? "    .sides = {{" : "               ", "{", side.side);
    for (const plan::NamedRate& rate : plan::named_rates()) {
      if (rate.of_side == nullptr) continue;
      lines += ", " + number_text(side.*rate.of_side);
      if (side.*rate.of_side == 0 || is_measured(steps, rate.name, side.side)) continue;
      scaled += text(scaled.empty() ? "" : ", ", rate.name, " of ", side.side);
    }
    lines += s + 1 == rates.sides.size() ? "}}},\n}" : "},\n";
  }
  return lines + (scaled.empty() ? "\n" : "  // scaled: " + scaled + "\n");
}

std::string rate_table(std::span<const MeasuredStep> steps) {
  std::string lines = table_head({"rate", "kernel", "product", "pairs", "measured ms", "predicted before",
                                  "predicted now", "predicted before / measured", "rate"});
  for (const MeasuredStep& one : steps) {
    if (!one.refusal.empty()) {
      lines += table_line({step_name(one.step), one.step.kernel, one.step.what.name, "refused: " + one.refusal});
      continue;
    }
    lines += table_line({step_name(one.step), one.step.kernel, one.step.what.name,
                         short_number(static_cast<double>(one.report.pairs)), short_number(one.ms),
                         short_number(one.old_ms), short_number(one.new_ms), short_number(one.old_ms / one.ms),
                         one.is_found ? "measured" : "as before: too small a part of the time"});
  }
  return lines;
}

}  // namespace spmm::tools
