// The table of kernels, and the rule that chooses one of CUDA: inequalities on block side, pairs, places of C blocks
// and rows.
#include "plan/registry.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"
#include "spmm/saturate.hpp"

namespace spmm::plan {
namespace {

/// Byte products that dense-tensor makes while a row kernel makes one multiply-add of padded blocks.
/// Source: an H200, 8e11 byte products a ms, and 1.1e8, 4.2e7, 5.5e6, 1.4e6, 1.1e6, 3.7e5 and 1.5e5 pairs a ms of sides
/// 4, 8, 16, 24, 32, 48 and 64; small-blocks, m = 1 and 2, makes 8e11 / 1,000 sums of elements a ms.
double dense_advantage(std::uint32_t m) {
  if (m <= 2) return 1000.0 / m;
  const std::uint32_t side = kernels::padded_side(m);
  return side == 4 ? 114 : side <= 24 ? 37 : 20;
}

double mean_row_pairs(const Counts& s) {
  return s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
}

/// Pairs for each place that C has for a block.
double pairs_per_place(const Counts& s) {
  return mean_row_pairs(s) / std::max(1u, s.c_columns());
}

/// Pairs that can be summed before a sum may leave 32 bits.
double fitting_pairs(const Counts& s) {
  const double largest = std::max(1.0, static_cast<double>(s.max_element));
  return kMaxVal / (largest * largest * s.m());
}

/// Whether row-spread checks most of its sums for overflow.
bool has_checked_sums(const Counts& s) {
  return static_cast<double>(s.a.num_blocks) > fitting_pairs(s) * static_cast<double>(s.a_rows);
}

/// Byte products that dense-tensor makes while the row kernels multiply all pairs.
double row_kernel_work(const Counts& s) {
  constexpr double kCheckedSums = 1.6;  // row-spread takes this many times as long with them
  const double m = s.m() <= 2 ? s.m() : kernels::padded_side(s.m());
  return s.num_pairs * m * m * m * dense_advantage(s.m()) * (s.m() > 2 && has_checked_sums(s) ? kCheckedSums : 1);
}

constexpr double kLeastDense = 1e9;           // byte products or multiply-adds: fewer are over before anything else is
constexpr double kStageByteProducts = 4.4e6;  // dense-tensor's, while tile-tensor multiplies two tiles: 5.5 ns

/// Tiles counted: products of tiles, and what else tile-tensor does, in their time.
double tile_stages(const Counts& s) {
  constexpr double kFarBytes = 3.2e7;  // of B's tiles that a row of tiles meets: L2 keeps fewer
  constexpr double kFar = 1.64;        // B's tile comes from memory each time
  constexpr double kPerCTile = 2.3, kPerATile = 3, kPerBTile = 6, kCounting = 36'000;
  double stages = kCounting + kPerBTile * static_cast<double>(s.tiles.b_tiles);
  for (const kernels::TileRowCounts& row : s.tiles.rows) {
    const auto of_row = static_cast<double>(row.stages);
    stages += of_row * (of_row * static_cast<double>(kernels::kTileBytesB) > kFarBytes ? kFar : 1) +
              kPerCTile * row.c_tiles + kPerATile * row.a_tiles;
  }
  return stages;
}

/// The share of its inner dimension that dense-tensor multiplies until all sums of a tile have reached the limit.
double share_before_saturation(const Counts& s) {
  constexpr double kMargin = 1.1;            // the last element of a tile decides, not the average
  constexpr double kFirstCheckTerms = 2048;  // before the first check
  const double mean = s.max_element / 2.0;
  const double pairs = pairs_per_place(s);
  const double least_pairs = std::max(0.0, pairs - 3 * std::sqrt(pairs));  // of some hundred C blocks, evenly spread
  const double sum = least_pairs * s.m() * mean * mean;
  const double first_check = kFirstCheckTerms / std::max(1.0, static_cast<double>(s.nb()) * s.m());
  return std::min(1.0, std::max(first_check, kMargin * kMaxVal / std::max(sum, 1.0)));
}

}  // namespace

double listed_pairs_per_block(std::uint32_t m) {
  const std::uint32_t side = kernels::padded_side(m);
  return side <= 8 ? kernels::kEscPairsPerBlock : side == 16 ? 0.5 : 1;
}

bool is_listed(const Counts& s) {
  return s.num_pairs < listed_pairs_per_block(s.m()) * static_cast<double>(s.a_rows) * s.c_columns();
}

double dense_byte_products(const Counts& s) {
  const double side = static_cast<double>(s.nb()) * s.m();
  const double share = share_before_saturation(s);
  const std::uint32_t products = share < 1 ? 1 : kernels::num_byte_products(kernels::num_dense_planes(s.max_element));
  return static_cast<double>(s.a_rows) * s.m() * side * side * products * share;
}

kernels::TileGrid tile_grid(const Counts& s) {
  return {.m = s.m(),
          .num_rows = static_cast<std::uint32_t>(s.a_rows),
          .nb = s.nb(),
          .num_columns = s.nb(),
          .num_planes = kernels::num_byte_planes(s.max_element)};
}

namespace {

/// Byte products in the time of the fastest kernel but tile-tensor.
double fastest_work(const Counts& s) {
  return std::min(row_kernel_work(s), dense_byte_products(s));
}

bool suits_tile_tensor(const Counts& s) {
  return s.tiles.counted && !s.tiles.rows.empty() && tile_stages(s) * kStageByteProducts < fastest_work(s);
}

bool suits_dense_tensor(const Counts& s) {
  const double products = dense_byte_products(s);
  return products >= kLeastDense && products <= row_kernel_work(s);
}

bool suits_dense_tiled(const Counts& s) {
  constexpr double kTiledShare = 1 / 123.0;  // multiply-adds of dense-tiled, for a byte product of dense-tensor
  const double side = static_cast<double>(s.nb()) * s.m();
  const double terms = static_cast<double>(s.a_rows) * s.m() * side * side;
  return terms >= kLeastDense && terms <= row_kernel_work(s) * kTiledShare;
}

/// The sums of most rows fit a warp of small-blocks, or those of hardly any do: between, CTAs that write in order wait
/// for warps. Source: an H200, m = 2, 256 pairs a row: small-blocks 10.9 ms, row-rank 1.0.
bool suits_small_blocks(const Counts& s) {
  constexpr double kApart = 6;
  if (s.m() > 3 || s.nb() == 0) return false;
  if (s.m() == 1) return true;
  const double slots = kernels::small_shape(s.m(), std::max(1u, s.c_columns()), kernels::kSmallWideBytes).hash_slots;
  return mean_row_pairs(s) * kApart <= slots || (s.m() == 2 && mean_row_pairs(s) > slots * kApart);
}

/// Rows with more pairs than a CTA lists, most of whose places stay empty. If row-spread has to check its sums,
/// row-rank, which counts pairs instead, is also faster where places have many.
bool suits_row_rank(const Counts& s) {
  constexpr double kFewPairs = 4e6;  // it looks at the operands and waits: 0.3 ms
  const std::uint32_t side = kernels::padded_side(s.m());
  if (side > kernels::kMaxRankedSide || s.c_columns() > kernels::kMaxRankedColumns || s.num_pairs < kFewPairs)
    return false;
  if (mean_row_pairs(s) <= kernels::kShortRowPairs) return false;
  const double pairs = pairs_per_place(s);
  if (pairs < (side == 16 ? 8 : 0.7)) return true;  // of side 16, row-spread holds few sums
  const double fitting = fitting_pairs(s);
  return has_checked_sums(s) && fitting >= kernels::kMinCountedPairs && pairs < fitting / 2 && side >= 8;
}

/// Whether warps sort all rows of small-blocks. Before pairs are counted: whether they would, if rows are about even.
bool sorts_rows(const Counts& s) {
  const double mean = s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
  const double likely = std::min(4 * mean, 2.0 * kernels::kSortedRowPairs);
  const std::uint64_t longest = s.exact ? s.row_pairs.max_row_pairs : static_cast<std::uint64_t>(likely);
  return kernels::sorts_rows(s.m(), longest, std::max(1u, s.c_columns()));
}

/// Scratch of a row must stay within what its C blocks bring: a long row has a work unit for each of its chunks.
std::string small_blocks_refusal(const Counts& s) {
  if (s.nb() == 0 || (s.exact && sorts_rows(s))) return {};
  const kernels::SmallShape least = kernels::small_shape(s.m(), s.c_columns(), kernels::kSmallestBytes);
  constexpr std::uint64_t kUnitBytes = 28;  // the unit, its look-back state, its records and their place
  const std::uint64_t per_pair = panel_c_block_bytes(s.m()) - 3 * output_record_bytes(s.m());
  const bool fits = kUnitBytes * (least.rank_chunks + 1) <= per_pair * (least.hash_slots + 1) &&
                    kUnitBytes * (least.dense_chunks + 1) <= per_pair * (least.rank_pairs + 1);
  const bool long_rows = s.exact && s.row_pairs.max_row_pairs > least.hash_slots;
  return fits || !long_rows ? "" : "rows with many pairs, and too many block columns";
}

constexpr std::array<KernelRow, 13> kRegistry = {{
    {.name = "rows",
     .backend = Backend::cuda,
     .summary = "per panel pair-list or row-spread, by density",
     .is_automatic = true,
     .listing = Listing::by_density,
     .spreads_rows = true},
    {.name = "row-spread",
     .backend = Backend::cuda,
     .summary = "Gustavson: one CTA per column chunk of a result row, sums in shared memory",
     .listing = Listing::never,
     .spreads_rows = true},
    {.name = "pair-list",
     .backend = Backend::cuda,
     .summary = "ESC: pairs sorted by result block, a warp multiplies each block's list",
     .listing = Listing::wherever_it_fits},
    {.name = "row-rank",
     .backend = Backend::cuda,
     .summary = "m up to 16: the C blocks of a row found first, then their sums by rank in shared memory",
     .is_automatic = true,
     .max_side = kernels::kMaxRankedSide,
     .max_columns = kernels::kMaxRankedColumns,
     .listing = Listing::bounded,
     .may_outgrow = true,
     .panel_bytes = kernels::kRankPanelBytes,
     .suits = suits_row_rank},
    {.name = "small-blocks",
     .backend = Backend::cuda,
     .summary = "m = 1 to 4: sums of a result row in shared memory, hashed, ranked or dense by its pairs",
     .is_automatic = true,
     .max_side = kernels::kMaxSmallSide,
     .listing = Listing::bounded,
     .reads_unpadded = true,
     .suits = suits_small_blocks,
     .refusal = small_blocks_refusal},
    {.name = "dense-tiled",
     .backend = Backend::cuda,
     .summary = "dense copies and register tiles on CUDA cores",
     .is_automatic = true,
     .expansion = Expansion::elements,
     .suits = suits_dense_tiled},
    {.name = "dense-tensor",
     .backend = Backend::cuda,
     .summary = "dense byte planes on integer tensor cores (Hopper)",
     .is_automatic = true,
     .needs_hopper = true,
     .expansion = Expansion::byte_planes,
     .prefilters = true,
     .suits = suits_dense_tensor},
    {.name = "tile-tensor",
     .backend = Backend::cuda,
     .summary = "dense-tensor on those tiles of 128 elements that are not empty (Hopper)",
     .is_automatic = true,
     .needs_hopper = true,
     .expansion = Expansion::tiles,
     .suits = suits_tile_tensor},
    {.name = "two-pointer",
     .backend = Backend::cuda,
     .summary = "one CTA per result tile merges two sorted lists in shared memory",
     .b_by_columns = true,
     .listing = Listing::by_density},
    {.name = "binary-search",
     .backend = Backend::cuda,
     .summary = "one CTA per result block; each block of A's row is searched in B's column",
     .b_by_columns = true,
     .listing = Listing::by_density},
    {.name = "host-driven",
     .backend = Backend::cuda,
     .summary = "the host merges the lists and launches one result block at a time",
     .b_by_columns = true,
     .listing = Listing::by_density,
     .launches_each_c_block = true},
    {.name = "row-merge",
     .backend = Backend::cpu,
     .summary = "threads over block rows, pairs ordered by column, SIMD dot products",
     .is_automatic = true,
     .host_bytes = row_merge_bytes},
    {.name = "reference",
     .backend = Backend::cpu,
     .summary = "the definition, one thread, slow",
     .max_threads = 1,
     .host_bytes = reference_bytes},
}};

}  // namespace

std::span<const KernelRow> registry() {
  return kRegistry;
}

const KernelRow* kernel_named(std::string_view name) {
  const auto* const found =
      std::find_if(kRegistry.begin(), kRegistry.end(), [&](const KernelRow& row) { return row.name == name; });
  return found == kRegistry.end() ? nullptr : found;
}

const KernelRow& row_of(std::string_view kernel) {
  if (const KernelRow* const row = kernel_named(kernel)) return *row;
  throw std::logic_error("no kernel: " + std::string(kernel));
}

const KernelRow& choose_kernel(const Counts& s, bool has_dense_tensor) {
  const auto suits = [&](const KernelRow& row) {
    return row.suits != nullptr && (!row.needs_hopper || has_dense_tensor) && row.suits(s);
  };
  const auto rows = registry();
  const auto found = s.num_pairs < 1 ? rows.rend() : std::find_if(rows.rbegin(), rows.rend(), suits);
  return found == rows.rend() ? rows.front() : *found;
}

std::uint64_t tile_stages_worth(const Counts& s) {
  constexpr double kLeastStages = 180'000;  // 1 ms
  if (s.num_pairs < 1 || static_cast<double>(s.nb()) * s.m() > kernels::kMaxTileSide) return 0;
  const kernels::TileGrid grid = tile_grid(s);
  const double worth = fastest_work(s) / kStageByteProducts;
  const double m = s.m();
  const double pairs_per_stage =  // if tiles are full
      std::pow(kernels::kTileDepth, 3) / grid.num_planes / grid.num_planes * 2 / (m * m * m);
  const double b_row_elements = s.num_pairs / s.a.num_blocks * m;
  const bool may_pay =
      worth > kLeastStages && b_row_elements >= kernels::kTileDepth / 2.0 && s.num_pairs / pairs_per_stage < worth;
  return may_pay ? static_cast<std::uint64_t>(worth) : 0;
}

}  // namespace spmm::plan
