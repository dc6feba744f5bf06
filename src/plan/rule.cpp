// The rule that chooses a CUDA kernel: inequalities on block side, pairs, places of C blocks, and rows. Work is counted
// in byte products of dense-tensor. Source of its figures: an H200, which makes 8e11 of these a ms.
#include "plan/rule.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/tuning.hpp"
#include "spmm/saturate.hpp"

namespace spmm::plan {
namespace {

/// Mean pairs of a row of A that has blocks.
double row_pairs(const Counts& s) {
  return s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
}

/// Mean pairs for each place that C has for a block.
double place_pairs(const Counts& s) {
  return row_pairs(s) / std::max(1u, s.c_columns());
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

/// Multiply-adds of full matrices.
double dense_terms(const Counts& s) {
  const double side = static_cast<double>(s.nb()) * s.m();
  return static_cast<double>(s.a_rows) * s.m() * side * side;
}

// ---- work ----

/// The kernels that multiply pair by pair. Source: 1.1e8, 4.2e7, 5.5e6, 1.4e6, 1.1e6, 3.7e5 and 1.5e5 pairs a ms of
/// sides 4, 8, 16, 24, 32, 48 and 64; small-blocks, m = 1 and 2, makes 8e8 sums of elements a ms.
double pair_work(const Counts& s) {
  constexpr double kCheckedSums = 1.6;  // row-spread takes this many times as long with them
  if (s.m() <= 2) return s.num_pairs * s.m() * s.m() * 1000;
  const double side = kernels::padded_side(s.m());
  const double of_term = side == 4 ? 114 : side <= 24 ? 37 : 20;
  return s.num_pairs * side * side * side * of_term * (has_checked_sums(s) ? kCheckedSums : 1);
}

/// dense-tensor multiplies until all sums of a tile have reached the limit.
double dense_work(const Counts& s) {
  constexpr double kMargin = 1.1;            // the last element of a tile decides, not the average
  constexpr double kFirstCheckTerms = 2048;  // before the first check
  const double mean = s.max_element / 2.0;
  const double pairs = place_pairs(s);
  const double least_pairs = std::max(0.0, pairs - 3 * std::sqrt(pairs));  // of some hundred C blocks, evenly spread
  const double sum = least_pairs * s.m() * mean * mean;
  const double first_check = kFirstCheckTerms / std::max(1.0, static_cast<double>(s.nb()) * s.m());
  const double share = std::min(1.0, std::max(first_check, kMargin * kMaxVal / std::max(sum, 1.0)));
  const std::uint32_t products = share < 1 ? 1 : kernels::num_byte_products(kernels::num_dense_planes(s.max_element));
  return dense_terms(s) * products * share;
}

/// dense-tiled makes 6.5e9 multiply-adds a ms.
double tiled_work(const Counts& s) {
  constexpr double kOfTerm = 123;
  return dense_terms(s) * kOfTerm;
}

constexpr double kStageWork = 4.4e6;  // tile-tensor multiplies two tiles: 5.5 ns

/// tile-tensor: products of tiles, and what else it does, in their time. Before tiles are counted: if they are full.
double tile_work(const Counts& s) {
  constexpr double kFarBytes = 3.2e7;  // of B's tiles that a row of tiles meets: L2 keeps fewer
  constexpr double kFar = 1.64;        // B's tile comes from memory each time
  constexpr double kPerCTile = 2.3, kPerATile = 3, kPerBTile = 6, kCounting = 36'000;
  if (!s.tiles.counted) {
    constexpr double kOfProduct = 1.5;
    const std::uint32_t products = kernels::num_byte_products(kernels::num_byte_planes(s.max_element));
    return s.num_pairs * std::pow(s.m(), 3) * products * kOfProduct;
  }
  double stages = kCounting + kPerBTile * static_cast<double>(s.tiles.b_tiles);
  for (const kernels::TileRowCounts& row : s.tiles.rows) {
    const auto of_row = static_cast<double>(row.stages);
    stages += of_row * (of_row * static_cast<double>(kernels::kTileBytesB) > kFarBytes ? kFar : 1) +
              kPerCTile * row.c_tiles + kPerATile * row.a_tiles;
  }
  return stages * kStageWork;
}

// ---- rows ----

/// The sums of most rows fit a warp of small-blocks, or those of hardly any do: between, CTAs that write in order wait
/// for warps. Source: m = 2, 256 pairs a row: small-blocks 10.9 ms, row-rank 1.0.
bool suits_small_blocks(const Counts& s) {
  constexpr double kApart = 6;
  if (s.m() > 3 || s.nb() == 0) return false;
  if (s.m() == 1) return true;
  const double slots = kernels::small_shape(s.m(), std::max(1u, s.c_columns()), kernels::kSmallWideBytes).hash_slots;
  return row_pairs(s) * kApart <= slots || (s.m() == 2 && row_pairs(s) > slots * kApart);
}

/// Rows with more pairs than a CTA lists, most of whose places stay empty. If row-spread has to check its sums,
/// row-rank, which counts pairs instead, is also faster where places have many.
bool suits_row_rank(const Counts& s) {
  constexpr double kFewPairs = 4e6;  // it reads the operands once more, and waits: 0.3 ms
  const std::uint32_t side = kernels::padded_side(s.m());
  if (side > kernels::kMaxRankedSide || s.c_columns() > kernels::kMaxRankedColumns || s.num_pairs < kFewPairs)
    return false;
  if (row_pairs(s) <= kernels::kShortRowPairs) return false;
  const double pairs = place_pairs(s);
  if (pairs < (side == 16 ? 8 : 0.7)) return true;  // of side 16, row-spread holds few sums
  const double fitting = fitting_pairs(s);
  return has_checked_sums(s) && fitting >= kernels::kMinCountedPairs && pairs < fitting / 2 && side >= 8;
}

}  // namespace

std::string_view fastest_kernel(const Counts& s, bool has_dense_tensor) {
  constexpr double kLeastDense = 1e9;  // byte products or multiply-adds: fewer are over before anything else is
  if (s.num_pairs < 1) return "rows";
  const double of_pairs = pair_work(s);
  const double of_dense = dense_work(s);
  const bool has_tiles = s.tiles.counted && !s.tiles.rows.empty();
  if (has_dense_tensor && has_tiles && tile_work(s) < std::min(of_pairs, of_dense)) return "tile-tensor";
  if (has_dense_tensor && of_dense >= kLeastDense && of_dense <= of_pairs) return "dense-tensor";
  if (dense_terms(s) >= kLeastDense && tiled_work(s) <= of_pairs) return "dense-tiled";
  if (suits_small_blocks(s)) return "small-blocks";
  if (suits_row_rank(s)) return "row-rank";
  return "rows";
}

double kernel_work(const KernelRow& kernel, const Counts& s) {
  switch (kernel.expansion) {
    case Expansion::byte_planes:
      return dense_work(s);
    case Expansion::tiles:
      return tile_work(s);
    case Expansion::elements:
      return tiled_work(s);
    case Expansion::none:
      break;
  }
  return pair_work(s);
}

std::uint64_t tile_stages_worth(const Counts& s) {
  constexpr double kLeastStages = 180'000;  // 1 ms
  if (s.num_pairs < 1 || static_cast<double>(s.nb()) * s.m() > kernels::kMaxTileSide) return 0;
  const double planes = tile_grid(s).num_planes;
  const double worth = std::min(pair_work(s), dense_work(s)) / kStageWork;
  const double pairs_per_stage =
      std::pow(kernels::kTileDepth, 3) / planes / planes * 2 / std::pow(s.m(), 3);  // if full
  const double b_row_elements = s.num_pairs / s.a.num_blocks * s.m();
  const bool may_pay =
      worth > kLeastStages && b_row_elements >= kernels::kTileDepth / 2.0 && s.num_pairs / pairs_per_stage < worth;
  return may_pay ? static_cast<std::uint64_t>(worth) : 0;
}

double listed_pairs_per_block(std::uint32_t m) {
  const std::uint32_t side = kernels::padded_side(m);
  return side <= 8 ? kernels::kEscPairsPerBlock : side == 16 ? 0.5 : 1;
}

bool is_listed(const Counts& s) {
  return s.num_pairs < listed_pairs_per_block(s.m()) * static_cast<double>(s.a_rows) * s.c_columns();
}

kernels::TileGrid tile_grid(const Counts& s) {
  return {.m = s.m(),
          .num_rows = static_cast<std::uint32_t>(s.a_rows),
          .nb = s.nb(),
          .num_columns = s.nb(),
          .num_planes = kernels::num_byte_planes(s.max_element)};
}

}  // namespace spmm::plan
