#include "plan/models/device_rates.hpp"

#include <algorithm>
#include <vector>

namespace spmm::plan {
namespace {

/// How a rate follows from published figures of a board.
enum class Bound : std::uint8_t {
  fixed,       // launches, waits, shares: the same everywhere
  arithmetic,  // multiprocessors and clock
  memory,      // bandwidth
};

/// A rate by its name; exactly one of the two members is set.
struct Field {
  std::string_view name{};
  double DeviceRates::*of_device = nullptr;
  double SideRates::*of_side = nullptr;
  Bound bound = Bound::fixed;
};

constexpr Field field(std::string_view name, double DeviceRates::*member, Bound bound) {
  return {name, member, nullptr, bound};
}
constexpr Field field(std::string_view name, double SideRates::*member, Bound bound) {
  return {name, nullptr, member, bound};
}

constexpr Field kFields[] = {
    field("launches_ms", &DeviceRates::launches_ms, Bound::fixed),
    field("build_bytes_per_ms", &DeviceRates::build_bytes_per_ms, Bound::memory),
    field("build_blocks_per_ms", &DeviceRates::build_blocks_per_ms, Bound::memory),
    field("copy_bytes_per_ms", &DeviceRates::copy_bytes_per_ms, Bound::memory),
    field("plane_bytes_per_ms", &DeviceRates::plane_bytes_per_ms, Bound::memory),
    field("gustavson_cta_ms", &DeviceRates::gustavson_cta_ms, Bound::arithmetic),
    field("gustavson_elements_per_ms", &DeviceRates::gustavson_elements_per_ms, Bound::arithmetic),
    field("gustavson_result_bytes_per_ms", &DeviceRates::gustavson_result_bytes_per_ms, Bound::memory),
    field("gustavson_ctas", &DeviceRates::gustavson_ctas, Bound::fixed),
    field("esc_ms", &DeviceRates::esc_ms, Bound::fixed),
    field("esc_list_pairs_per_ms", &DeviceRates::esc_list_pairs_per_ms, Bound::memory),
    field("esc_result_bytes_per_ms", &DeviceRates::esc_result_bytes_per_ms, Bound::memory),
    field("short_row_bytes_per_ms", &DeviceRates::short_row_bytes_per_ms, Bound::memory),
    field("small_hash_pairs_per_ms", &DeviceRates::small_hash_pairs_per_ms, Bound::arithmetic),
    field("small_sort_pairs_per_ms", &DeviceRates::small_sort_pairs_per_ms, Bound::arithmetic),
    field("small_sort_row_ms", &DeviceRates::small_sort_row_ms, Bound::arithmetic),
    field("small_sums_per_ms", &DeviceRates::small_sums_per_ms, Bound::arithmetic),
    field("small_unit_ms", &DeviceRates::small_unit_ms, Bound::arithmetic),
    field("small_ranked_unit_ms", &DeviceRates::small_ranked_unit_ms, Bound::arithmetic),
    field("small_uneven_unit_ms", &DeviceRates::small_uneven_unit_ms, Bound::arithmetic),
    field("rank_columns_per_ms", &DeviceRates::rank_columns_per_ms, Bound::arithmetic),
    field("rank_row_ms", &DeviceRates::rank_row_ms, Bound::arithmetic),
    field("rank_ms", &DeviceRates::rank_ms, Bound::fixed),
    field("rank_panel_ms", &DeviceRates::rank_panel_ms, Bound::fixed),
    field("rank_result_bytes_per_ms", &DeviceRates::rank_result_bytes_per_ms, Bound::memory),
    field("rank_zero_blocks_per_ms", &DeviceRates::rank_zero_blocks_per_ms, Bound::arithmetic),
    field("tensor_terms_per_ms", &DeviceRates::tensor_terms_per_ms, Bound::arithmetic),
    field("tile_stage_ms", &DeviceRates::tile_stage_ms, Bound::arithmetic),
    field("tile_far_stage_ms", &DeviceRates::tile_far_stage_ms, Bound::memory),
    field("tile_far_bytes", &DeviceRates::tile_far_bytes, Bound::fixed),
    field("tile_list_ms", &DeviceRates::tile_list_ms, Bound::memory),
    field("tile_bytes_per_ms", &DeviceRates::tile_bytes_per_ms, Bound::memory),
    field("tile_count_ms", &DeviceRates::tile_count_ms, Bound::fixed),
    field("tile_count_blocks_per_ms", &DeviceRates::tile_count_blocks_per_ms, Bound::memory),
    field("tiled_terms_per_ms", &DeviceRates::tiled_terms_per_ms, Bound::arithmetic),
    field("gustavson_pairs_per_ms", &SideRates::gustavson_pairs_per_ms, Bound::arithmetic),
    field("esc_pairs_per_ms", &SideRates::esc_pairs_per_ms, Bound::arithmetic),
    field("esc_pairs_per_block", &SideRates::esc_pairs_per_block, Bound::fixed),
    field("ranked_pairs_per_ms", &SideRates::ranked_pairs_per_ms, Bound::arithmetic),
};

/// Fitted to measurements on one H200 (kernels/README.md has the runs); those of sides to uniform products with 0.5 to
/// 8 pairs per C block. kernels/HISTORY.md has what is predicted and measured. tile_far_stage_ms is estimated: 32 KB of
/// B's tile from memory each time.
constexpr DeviceRates kMeasured{
    .launches_ms = 0.14,
    .build_bytes_per_ms = 8.0e8,
    .build_blocks_per_ms = 1.3e7,
    .copy_bytes_per_ms = 4.0e9,
    .plane_bytes_per_ms = 1.7e9,
    .gustavson_cta_ms = 2.0e-5,
    .gustavson_elements_per_ms = 1.0e9,
    .gustavson_result_bytes_per_ms = 3.0e9,
    .gustavson_ctas = 264,
    .esc_ms = 0.1,
    .esc_list_pairs_per_ms = 1.15e7,
    .esc_result_bytes_per_ms = 2.45e9,
    .short_row_bytes_per_ms = 1.6e9,
    .small_hash_pairs_per_ms = 7.0e7,
    .small_sort_pairs_per_ms = 4.6e7,
    .small_sort_row_ms = 6.0e-7,
    .small_sums_per_ms = 5.0e8,
    .small_unit_ms = 2.5e-5,
    .small_ranked_unit_ms = 3.5e-5,
    .small_uneven_unit_ms = 2.0e-4,
    .rank_columns_per_ms = 2.0e10,
    .rank_row_ms = 1.0e-5,
    .rank_ms = 0.2,
    .rank_panel_ms = 0.1,
    .rank_result_bytes_per_ms = 1.3e9,
    .rank_zero_blocks_per_ms = 1.0e7,
    .tensor_terms_per_ms = 8.0e11,
    .tile_stage_ms = 5.5e-6,
    .tile_far_stage_ms = 9.0e-6,
    .tile_far_bytes = 3.2e7,
    .tile_list_ms = 1.25e-5,
    .tile_bytes_per_ms = 1.0e9,
    .tile_count_ms = 0.2,
    .tile_count_blocks_per_ms = 3.0e7,
    .tiled_terms_per_ms = 6.5e9,
    .sides = {{{4, 1.1e8, 1.9e7, kernels::kEscPairsPerBlock, 5.0e7},
               {8, 4.2e7, 1.0e7, kernels::kEscPairsPerBlock, 3.0e7},
               {16, 5.5e6, 2.0e6, 0.5, 5.5e6},
               {24, 1.4e6, 8.0e5, 1, 0},
               {32, 1.1e6, 5.2e5, 1, 0},
               {48, 3.7e5, 1.8e5, 1, 0},
               {64, 1.5e5, 7.0e4, 1, 0}}},
};

/// Source of the figures: the vendor's data sheets of the boards.
constexpr Architecture kArchitectures[] = {
    {75, "T4", false, 40, 1.59, 320},
    {80, "A100 80GB", false, 108, 1.41, 2039},
    {86, "A40", false, 84, 1.74, 696},
    {89, "L40S", false, 142, 2.52, 864},
    {90, "H200", true, 132, 1.98, 4800},
    {100, "B200", false, 148, 1.965, 8000},
    {120, "RTX PRO 6000", false, 188, 2.6, 1792},
};

/// A rate is divided by the factor of its time: milliseconds grow where the others fall.
double scaled(const Field& field, double value, double arithmetic, double memory) {
  const double factor = field.bound == Bound::arithmetic ? arithmetic : field.bound == Bound::memory ? memory : 1;
  return field.name.ends_with("_per_ms") ? value * factor : value / factor;
}

const Architecture& measured_architecture() {
  return *std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                       [](const Architecture& row) { return row.is_measured; });
}

std::vector<DeviceRates> make_rates() {
  std::vector<DeviceRates> rates;
  for (const Architecture& row : kArchitectures) rates.push_back(scaled_rates(kMeasured, measured_architecture(), row));
  return rates;
}

}  // namespace

const SideRates& DeviceRates::of_side(std::uint32_t m) const {
  const std::uint32_t side = kernels::padded_side(m);
  return *std::find_if(sides.begin(), sides.end() - 1, [&](const SideRates& row) { return row.side >= side; });
}

const Architecture& architecture_of(int capability) {
  const auto* const after = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                         [&](const Architecture& row) { return row.capability > capability; });
  return after == std::begin(kArchitectures) ? *after : *(after - 1);
}

DeviceRates scaled_rates(const DeviceRates& measured, const Architecture& from, const Architecture& to) {
  if (to.capability == from.capability) return measured;
  const double arithmetic = to.multiprocessors * to.boost_ghz / (from.multiprocessors * from.boost_ghz);
  const double memory = to.memory_gb_per_s / from.memory_gb_per_s;
  DeviceRates rates = measured;
  for (const Field& field : kFields) {
    if (field.of_device != nullptr) {
      rates.*field.of_device = scaled(field, measured.*field.of_device, arithmetic, memory);
      continue;
    }
    for (SideRates& side : rates.sides) {
      side.*field.of_side = scaled(field, side.*field.of_side, arithmetic, memory);
    }
  }
  return rates;
}

const DeviceRates& device_rates(int capability) {
  static const std::vector<DeviceRates> rates = make_rates();
  return rates[static_cast<std::size_t>(&architecture_of(capability) - kArchitectures)];
}

}  // namespace spmm::plan
