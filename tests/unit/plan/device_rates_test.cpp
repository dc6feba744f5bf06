#include "plan/models/device_rates.hpp"

#include <set>
#include <string>

#include "plan/decide.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace spmm {
namespace {

using plan::device_rates;
using plan::DeviceRates;

TEST_CASE("rates: every architecture has all of them", "[rates]") {
  for (const plan::Architecture& row : plan::architectures()) {
    const DeviceRates& rates = device_rates(row.capability);
    for (const plan::NamedRate& rate : plan::named_rates()) {
      INFO(row.board << ": " << rate.name);
      CHECK((rate.of_device == nullptr) != (rate.of_side == nullptr));
      if (rate.of_device != nullptr) CHECK(rates.*rate.of_device > 0);
      for (const plan::SideRates& side : rates.sides) {
        const bool compiled = rate.of_side != &plan::SideRates::ranked_pairs_per_ms || side.side <= 16;
        if (rate.of_side != nullptr) CHECK((side.*rate.of_side > 0) == compiled);
      }
    }
  }
}

TEST_CASE("rates: the names are all fields", "[rates]") {
  std::set<std::string> names;
  std::size_t of_device = 0;
  for (const plan::NamedRate& rate : plan::named_rates()) {
    CHECK(names.insert(std::string(rate.name)).second);
    of_device += rate.of_device != nullptr ? 1 : 0;
  }
  const std::size_t of_side = plan::named_rates().size() - of_device;
  CHECK(sizeof(DeviceRates) == of_device * sizeof(double) + std::size(kernels::kBlockSides) * sizeof(plan::SideRates));
  CHECK(sizeof(plan::SideRates) == (of_side + 1) * sizeof(double));
}

TEST_CASE("rates: a device takes its own row, or that of the newest before it", "[rates]") {
  CHECK(plan::architecture_of(90).is_measured);
  CHECK(plan::architecture_of(80).board == "A100 80GB");
  CHECK(plan::architecture_of(87).capability == 86);
  CHECK(plan::architecture_of(103).capability == 100);
  CHECK(plan::architecture_of(999).capability == 120);
  CHECK(plan::architecture_of(70).capability == 75);
  CHECK(&device_rates(103) == &device_rates(100));
}

TEST_CASE("rates: others are scaled from the measured ones", "[rates]") {
  const DeviceRates& measured = device_rates(90);
  const DeviceRates& a100 = device_rates(80);
  const double arithmetic = 108 * 1.41 / (132 * 1.98);
  const double memory = 2039.0 / 4800;
  CHECK(a100.launches_ms == measured.launches_ms);
  CHECK(a100.copy_bytes_per_ms == Approx(measured.copy_bytes_per_ms * memory));
  CHECK(a100.tile_stage_ms == Approx(measured.tile_stage_ms / arithmetic));
  CHECK(a100.of_side(7).side == 8);
  CHECK(a100.of_side(7).gustavson_pairs_per_ms == Approx(measured.of_side(8).gustavson_pairs_per_ms * arithmetic));
  CHECK(a100.of_side(64).esc_pairs_per_block == measured.of_side(64).esc_pairs_per_block);
}

TEST_CASE("rates: the decision predicts with those of its device", "[rates]") {
  const plan::Statistics s = plan::expected_statistics({32'768, 8, 1'000'000}, {32'768, 8, 1'000'000});
  plan::Limits limits = test::large_machine();
  const double fast = plan::decide(s, limits).predicted_ms;
  limits.device->capability = 75;
  CHECK(plan::decide(s, limits).predicted_ms > 4 * fast);
}

}  // namespace
}  // namespace spmm
