#include "plan/models/device_models.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/tuning.hpp"
#include "plan/memory/dense_plan.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

double elements_of_block(const Statistics& s) {
  return static_cast<double>(s.m()) * s.m();
}

/// C blocks, from rows that have been examined, else as many as rows allow for.
double c_blocks_of(const Statistics& s) {
  if (s.row_sample.pairs < 1) return s.num_c_blocks;
  return std::min(s.num_c_blocks, s.num_pairs * s.row_sample.c_blocks / s.row_sample.pairs);
}

double result_bytes(const Statistics& s) {
  return c_blocks_of(s) * static_cast<double>(output_record_bytes(s.m()));
}

constexpr double kFirstCheckTerms = 2'048;  // dense-tensor first checks for saturated tiles after so many

/// Share of the inner dimension that is multiplied before all C blocks of a tile are saturated, if elements are half
/// the largest on average; the one with the fewest pairs decides.
double share_before_saturation(const Statistics& s) {
  if (s.num_c_blocks < 1) return 1;
  const double mean = s.max_element / 2.0;
  const double pairs = s.num_pairs / s.num_c_blocks;
  const double least_pairs = std::max(0.0, pairs - 3 * std::sqrt(pairs));  // of some hundred C blocks, evenly spread
  const double sum = least_pairs * s.m() * mean * mean;
  const double first_check = kFirstCheckTerms / (static_cast<double>(s.nb()) * s.m());
  return std::min(1.0, std::max(first_check, kernels::kEarlyExitMargin * kMaxVal / std::max(sum, 1.0)));
}

/// Everything but the products of a dense kernel: operands are expanded, results written, read and packed.
double dense_frame_ms(const Statistics& s, const DenseGroups& groups, std::uint32_t bytes_per_element,
                      const DeviceRates& rates) {
  const double side = static_cast<double>(s.nb()) * s.m();
  const auto num_panels = static_cast<double>((s.a_rows + groups.panel_rows - 1) / groups.panel_rows);
  const double expansions = groups.group_columns == s.nb() ? 1 : num_panels;
  return build_ms(s, rates) + (expansions + 1) * side * side * bytes_per_element / rates.plane_bytes_per_ms +
         3 * result_bytes(s) / rates.copy_bytes_per_ms;
}

/// Multiply-adds of a dense product.
double dense_terms(const Statistics& s) {
  const double side = static_cast<double>(s.nb()) * s.m();
  return static_cast<double>(s.a_rows) * s.m() * side * side;
}

/// How many products of blocks can be added up before a sum may leave 32 bits.
double fitting_pairs(const Statistics& s) {
  const double largest = std::max(1.0, static_cast<double>(s.max_element));
  return kMaxVal / (largest * largest * s.m());
}

double mean_a_row(const Statistics& s) {
  return static_cast<double>(s.num_blocks()) / 2 / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
}

double pairs_per_c_block(const Statistics& s) {
  return s.num_pairs / std::max(1.0, c_blocks_of(s));
}

/// Share of the rates of sums in shared memory that is left where some rows can leave 32 bits: in those, every sum is
/// checked for overflow, at checked_share of the rate. Lengths of rows are assumed to spread as those of evenly spread
/// blocks do.
double share_of_checked_sums(const Statistics& s, double checked_share) {
  const double mean = mean_a_row(s);
  const double checked = 0.5 * std::erfc((fitting_pairs(s) - mean) / std::sqrt(2 * std::max(mean, 1.0)));
  return 1 / (1 - checked + checked / checked_share);
}

/// The same of row-spread, which bins pairs of side 8 by C block, where rows of A are not too long for that.
double spread_share(const Statistics& s, const SideRates& side) {
  constexpr double kMaxBinnedRow = 512;  // threads of a CTA
  const double pairs = pairs_per_c_block(s);
  const bool binned = side.side == 8 && mean_a_row(s) <= kMaxBinnedRow && pairs >= kernels::kMinBinPairs &&
                      pairs <= kernels::kMaxBinPairs;
  return share_of_checked_sums(s, binned ? kernels::kBinnedCheckedShare : kernels::kGustavsonCheckedShare);
}

/// The same of row-rank, which counts pairs instead where enough of them fit, and multiplies windows in which a C block
/// has more of them once more.
double rank_share(const Statistics& s) {
  const double fitting = fitting_pairs(s);
  const double checked = share_of_checked_sums(s, kernels::kGustavsonCheckedShare);
  if (fitting < kernels::kMinCountedPairs) return checked;
  return fitting >= 2 * pairs_per_c_block(s) ? 1 : checked / (1 + checked);
}

/// Whether some C blocks that have pairs are expected to be zero, elements being drawn evenly: a column of a block of A
/// is zero where m elements are.
bool has_zero_blocks(const Statistics& s) {
  return static_cast<double>(s.num_blocks()) * s.m() * std::pow(1.0 + s.max_element, -static_cast<double>(s.m())) > 1;
}

/// Whether every row has few pairs; before they are counted, whether the longest of many even rows would.
bool has_short_rows(const Statistics& s) {
  const double mean = s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
  return (s.exact ? static_cast<double>(s.row_pairs.max_row_pairs) : 4 * mean) <= kernels::kShortRowPairs;
}

/// Milliseconds of some rows in small-blocks, all with as many pairs as they have on average.
double small_rows_ms(const Statistics& s, const kernels::SmallShape& shape, double rows, double pairs,
                     const DeviceRates& rates) {
  const double mean = pairs / std::max(rows, 1.0);
  const double sums = pairs * elements_of_block(s) / rates.small_sums_per_ms;
  if (mean <= shape.hash_slots) return pairs / rates.small_hash_pairs_per_ms + sums;
  const bool is_ranked = mean <= shape.rank_pairs;
  const double even_unit_ms = is_ranked ? rates.small_ranked_unit_ms : rates.small_unit_ms;
  return sums +
         rows * (is_ranked ? 1 : shape.dense_chunks) * (has_even_rows(s) ? even_unit_ms : rates.small_uneven_unit_ms);
}

/// Milliseconds that CTAs of small-blocks, which write in order, wait for warps that hash a few rows between longer
/// ones. Assumes that row lengths spread as those of evenly spread blocks do, and the longest one twice as far.
double small_waits_ms(const Statistics& s, const kernels::SmallShape& shape, const DeviceRates& rates) {
  // Set to the multiply stages of spmm-bench on an H200, 2026-11-24: uniform matrices of sides 1 to 3, 25,000 rows of
  // 256 to 1,024 pairs. All CTAs wait once for each task that they have.
  constexpr double kSlotMs = 3e-4;
  if (!has_even_rows(s)) return 0;
  const auto rows = static_cast<double>(s.a_rows);
  const double mean = s.num_pairs / std::max(rows, 1.0);
  double spread = std::sqrt(mean * (1 + mean_a_row(s)));
  if (s.exact) spread = std::min(spread, (static_cast<double>(s.row_pairs.max_row_pairs) - mean) / 2);
  if (spread < 1) return 0;
  const double longer = 0.5 * std::erfc((shape.hash_slots - mean) / (std::sqrt(2) * spread));
  const double hashed_runs = rows * longer * (1 - longer);
  return std::min(hashed_runs, (rows * longer + hashed_runs) / rates.gustavson_ctas) * shape.hash_slots * kSlotMs;
}

}  // namespace

const DeviceRates& rates_of(const Limits& limits) {
  return device_rates(limits.device ? limits.device->capability : kUnseenCapability);
}

bool sorts_rows(const Statistics& s) {
  const double mean = s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
  const double likely = std::min(4 * mean, 2.0 * kernels::kSortedRowPairs);
  const std::uint64_t longest = s.exact ? s.row_pairs.max_row_pairs : static_cast<std::uint64_t>(likely);
  return kernels::sorts_rows(s.m(), longest, std::max(1u, s.c_columns()));
}

bool has_even_rows(const Statistics& s) {
  const double mean = s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
  return !s.exact || static_cast<double>(s.row_pairs.max_row_pairs) <= kernels::kSmallEvenRows * mean;
}

double build_ms(const Statistics& s, const DeviceRates& rates) {
  const auto blocks = static_cast<double>(s.num_blocks());
  return rates.launches_ms + blocks * static_cast<double>(input_record_bytes(s.m())) / rates.build_bytes_per_ms +
         blocks / rates.build_blocks_per_ms;
}

kernels::TileGrid tile_grid(const Statistics& s) {
  return {.m = s.m(),
          .num_rows = static_cast<std::uint32_t>(s.a_rows),
          .nb = s.nb(),
          .num_planes = num_byte_planes(s.max_element)};
}

double shared_ms(double ms_alone, const Statistics& s, const DeviceRates& rates, std::uint32_t num_devices) {
  const double build = std::min(ms_alone, build_ms(s, rates));
  // A row of C is one device's; if there are few, some devices have one more than others.
  const double rows_of_most = std::ceil(s.c_rows / num_devices);
  return build + (ms_alone - build) * (s.c_rows < 1 ? 1.0 / num_devices : rows_of_most / s.c_rows);
}

bool is_listed(const Statistics& s, const DeviceRates& rates) {
  return s.num_pairs < rates.of_side(s.m()).esc_pairs_per_block * static_cast<double>(s.a_rows) * s.c_columns();
}

double pair_list_ms(const Statistics& s, const DenseGroups&, const DeviceRates& rates) {
  if (s.num_pairs < 1) return build_ms(s, rates);
  if (s.m() == kernels::kShortRowSide && has_short_rows(s)) {
    return build_ms(s, rates) + result_bytes(s) / rates.short_row_bytes_per_ms;
  }
  const double panels = s.num_pairs * static_cast<double>(output_record_bytes(s.m())) / kernels::kPanelBytes;
  const double listing = rates.esc_ms * std::max(1.0, panels) + s.num_pairs / rates.esc_list_pairs_per_ms;
  return build_ms(s, rates) + listing + s.num_pairs / rates.of_side(s.m()).esc_pairs_per_ms +
         result_bytes(s) / rates.esc_result_bytes_per_ms;
}

double row_spread_ms(const Statistics& s, const DenseGroups&, const DeviceRates& rates) {
  if (s.num_pairs < 1) return build_ms(s, rates);
  // Of the rate of side 8; m is known at run time only. Source: data/measurements/gpu-sides.json, rows, the same
  // blocks: 25,390 pairs a us with m = 8, 18,947, 19,125 and 17,352 with 5, 6 and 7, which is 0.68 to 0.75.
  constexpr double kPaddedRate = 0.7;
  // Of what a chunk takes in addition to its products, sides 4 and 8, where CTAs take work units. Set with the rates of
  // an H200; no separate figures were kept.
  constexpr double kUnitsFrame = 0.8;
  const double elements = elements_of_block(s);
  const SideRates& side = rates.of_side(s.m());
  const double pairs_per_ms =
      side.gustavson_pairs_per_ms * spread_share(s, side) * (s.m() < side.side && side.side <= 8 ? kPaddedRate : 1);
  const double chunk_blocks =
      std::clamp<double>(kernels::kGustavsonSharedBytes / (4 * elements + 4), 1, kernels::kMaxChunkBlocks);
  const auto rows = static_cast<double>(s.a_rows);
  const double chunks = std::ceil(s.c_columns() / chunk_blocks);
  const double longest = s.exact && s.row_pairs.num_runs() != 0
                             ? std::min(s.num_pairs, static_cast<double>(s.row_pairs.max_row_pairs))
                             : 0;
  const double products = std::max(s.num_pairs, longest / chunks * rates.gustavson_ctas) / pairs_per_ms;
  const double ctas = rows * chunks;
  const double frame = ctas * rates.gustavson_cta_ms +
                       rows * s.c_columns() * elements / rates.gustavson_elements_per_ms +
                       result_bytes(s) / rates.gustavson_result_bytes_per_ms;
  return build_ms(s, rates) + products + (side.side <= 8 ? kUnitsFrame : 1) * frame;
}

double rows_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates) {
  return is_listed(s, rates) ? pair_list_ms(s, groups, rates) : row_spread_ms(s, groups, rates);
}

double small_blocks_ms(const Statistics& s, const DenseGroups&, const DeviceRates& rates) {
  if (s.num_pairs < 1) return build_ms(s, rates);
  if (sorts_rows(s)) {
    return build_ms(s, rates) + static_cast<double>(s.a_rows) * rates.small_sort_row_ms +
           s.num_pairs / rates.small_sort_pairs_per_ms + result_bytes(s) / rates.gustavson_result_bytes_per_ms;
  }
  const kernels::SmallShape shape = kernels::small_shape(s.m(), std::max(1u, s.c_columns()), kernels::kSmallWideCta);
  double multiply = small_waits_ms(s, shape, rates);
  if (s.row_pairs.num_runs() == 0) {
    multiply += small_rows_ms(s, shape, static_cast<double>(s.a_rows), s.num_pairs, rates);
  }
  for (std::size_t run = 0; run < s.row_pairs.num_runs(); ++run) {
    const double rows = s.row_pairs.first_row(run + 1) - s.row_pairs.first_row(run);
    const auto pairs = static_cast<double>(s.row_pairs.offsets[run + 1] - s.row_pairs.offsets[run]);
    multiply += small_rows_ms(s, shape, rows, pairs, rates);
  }
  return build_ms(s, rates) + multiply + result_bytes(s) / rates.gustavson_result_bytes_per_ms;
}

double row_rank_ms(const Statistics& s, const DenseGroups&, const DeviceRates& rates) {
  if (s.num_pairs < 1) return build_ms(s, rates);
  const auto rows = static_cast<double>(s.a_rows);
  const double panels = std::max(1.0, result_bytes(s) / static_cast<double>(kernels::kRankPanelBytes));
  const bool even = has_even_rows(s);
  const bool looked_at = s.row_sample.num_rows != 0;
  const double c_blocks = c_blocks_of(s) * (even || looked_at ? 1 : kernels::kUnevenRankShare);
  const double columns = looked_at ? s.row_sample.columns / s.row_sample.num_rows : s.c_columns();
  const double pairs_per_ms =
      rates.of_side(s.m()).ranked_pairs_per_ms * rank_share(s) * (even ? 1 : kernels::kUnevenRankRate);
  return build_ms(s, rates) + rates.rank_ms + panels * rates.rank_panel_ms +
         rows * (rates.rank_row_ms + columns / rates.rank_columns_per_ms) + s.num_pairs / pairs_per_ms +
         c_blocks * static_cast<double>(output_record_bytes(s.m())) / rates.rank_result_bytes_per_ms +
         (has_zero_blocks(s) ? c_blocks / rates.rank_zero_blocks_per_ms : 0);
}

double dense_tensor_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates) {
  const double share = share_before_saturation(s);
  const std::uint32_t planes = share < 1 ? 1 : groups.num_planes;  // high bytes find what is saturated
  const double byte_terms = dense_terms(s) * num_byte_products(planes) * share;
  return dense_frame_ms(s, groups, planes, rates) + byte_terms / rates.tensor_terms_per_ms;
}

double tile_tensor_ms(const Statistics& s, const DenseGroups&, const DeviceRates& rates) {
  if (s.num_pairs < 1) return build_ms(s, rates);
  const kernels::TileGrid grid = tile_grid(s);
  const bool counted = s.tiles.counted && !s.tiles.rows.empty();
  const TileExtent any_row = max_tile_row(grid);  // every tile, where they are not counted
  TileExtent all;
  double stages_ms = 0;
  for (std::uint32_t row = 0; row < grid.num_row_tiles(); ++row) {
    const TileExtent extent = counted ? tile_row_extent(grid, s.tiles, row) : any_row;
    const auto stages = static_cast<double>(extent.stages);
    const bool far = stages * static_cast<double>(kernels::kTileBytesB) > rates.tile_far_bytes;
    stages_ms += stages * (far ? rates.tile_far_stage_ms : rates.tile_stage_ms);
    all.add(extent);
  }
  const std::uint64_t b_tiles = counted ? s.tiles.b_tiles : any_row.stages;
  const auto tile_bytes = static_cast<double>(all.a_tiles * kernels::kTileBytesA + b_tiles * kernels::kTileBytesB);
  const auto c_bytes = static_cast<double>(all.c_blocks * output_record_bytes(s.m()));
  return build_ms(s, rates) + rates.tile_count_ms +
         static_cast<double>(s.num_blocks()) / rates.tile_count_blocks_per_ms + tile_bytes / rates.tile_bytes_per_ms +
         stages_ms + static_cast<double>(all.c_tiles) * rates.tile_list_ms + 3 * c_bytes / rates.copy_bytes_per_ms;
}

double dense_tiled_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates) {
  return dense_frame_ms(s, groups, 2, rates) + dense_terms(s) / rates.tiled_terms_per_ms;
}

}  // namespace spmm::plan
