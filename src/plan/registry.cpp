#include "plan/registry.hpp"

#include <algorithm>
#include <array>

#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"
#include "plan/rule.hpp"
#include "plan/times.hpp"

namespace spmm::plan {
namespace {

/// Whether warps sort all rows of small-blocks. Before pairs are counted: whether they would, if rows are about even.
bool sorts_rows(const Statistics& s) {
  const double mean = s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
  const double likely = std::min(4 * mean, 2.0 * kernels::kSortedRowPairs);
  const std::uint64_t longest = s.exact ? s.row_pairs.max_row_pairs : static_cast<std::uint64_t>(likely);
  return kernels::sorts_rows(s.m(), longest, std::max(1u, s.c_columns()));
}

/// Scratch of a row must stay within what its C blocks bring: a long row has a work unit for each of its chunks.
std::string small_blocks_refusal(const Statistics& s) {
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
    {.id = KernelId::rows,
     .name = "rows",
     .backend = Backend::cuda,
     .summary = "per panel pair-list or row-spread, by density",
     .is_automatic = true,
     .listing = Listing::by_density,
     .spreads_rows = true,
     .ms = pairs_ms},
    {.id = KernelId::row_spread,
     .name = "row-spread",
     .backend = Backend::cuda,
     .summary = "Gustavson: one CTA per column chunk of a result row, sums in shared memory",
     .listing = Listing::never,
     .spreads_rows = true,
     .ms = pairs_ms},
    {.id = KernelId::pair_list,
     .name = "pair-list",
     .backend = Backend::cuda,
     .summary = "ESC: pairs sorted by result block, a warp multiplies each block's list",
     .listing = Listing::wherever_it_fits,
     .ms = pairs_ms},
    {.id = KernelId::row_rank,
     .name = "row-rank",
     .backend = Backend::cuda,
     .summary = "m up to 16: the C blocks of a row found first, then their sums by rank in shared memory",
     .is_automatic = true,
     .max_side = kernels::kMaxRankedSide,
     .max_columns = kernels::kMaxRankedColumns,
     .listing = Listing::bounded,
     .may_outgrow = true,
     .panel_bytes = kernels::kRankPanelBytes,
     .suits = suits_row_rank,
     .ms = pairs_ms},
    {.id = KernelId::small_blocks,
     .name = "small-blocks",
     .backend = Backend::cuda,
     .summary = "m = 1 to 4: sums of a result row in shared memory, hashed, ranked or dense by its pairs",
     .is_automatic = true,
     .max_side = kernels::kMaxSmallSide,
     .listing = Listing::bounded,
     .reads_unpadded = true,
     .suits = suits_small_blocks,
     .ms = pairs_ms,
     .refusal = small_blocks_refusal},
    {.id = KernelId::dense_tiled,
     .name = "dense-tiled",
     .backend = Backend::cuda,
     .summary = "dense copies and register tiles on CUDA cores",
     .is_automatic = true,
     .expansion = Expansion::elements,
     .suits = suits_dense_tiled,
     .ms = dense_tiled_ms},
    {.id = KernelId::dense_tensor,
     .name = "dense-tensor",
     .backend = Backend::cuda,
     .summary = "dense byte planes on integer tensor cores (Hopper)",
     .is_automatic = true,
     .needs_hopper = true,
     .expansion = Expansion::byte_planes,
     .prefilters = true,
     .suits = suits_dense_tensor,
     .ms = dense_tensor_ms},
    {.id = KernelId::tile_tensor,
     .name = "tile-tensor",
     .backend = Backend::cuda,
     .summary = "dense-tensor on those tiles of 128 elements that are not empty (Hopper)",
     .is_automatic = true,
     .needs_hopper = true,
     .expansion = Expansion::tiles,
     .suits = suits_tile_tensor,
     .ms = tile_tensor_ms},
    {.id = KernelId::two_pointer,
     .name = "two-pointer",
     .backend = Backend::cuda,
     .summary = "one CTA per result tile merges two sorted lists in shared memory",
     .b_by_columns = true,
     .listing = Listing::by_density},
    {.id = KernelId::binary_search,
     .name = "binary-search",
     .backend = Backend::cuda,
     .summary = "one CTA per result block; each block of A's row is searched in B's column",
     .b_by_columns = true,
     .listing = Listing::by_density},
    {.id = KernelId::host_driven,
     .name = "host-driven",
     .backend = Backend::cuda,
     .summary = "the host merges the lists and launches one result block at a time",
     .b_by_columns = true,
     .listing = Listing::by_density,
     .launches_each_c_block = true},
    {.id = KernelId::row_merge,
     .name = "row-merge",
     .backend = Backend::cpu,
     .summary = "threads over block rows, pairs ordered by column, SIMD dot products",
     .is_automatic = true,
     .ms = row_merge_ms,
     .host_bytes = row_merge_bytes},
    {.id = KernelId::reference,
     .name = "reference",
     .backend = Backend::cpu,
     .summary = "the definition, one thread, slow",
     .max_threads = 1,
     .ms = reference_ms,
     .host_bytes = reference_bytes},
}};

}  // namespace

std::span<const KernelRow> registry() {
  return kRegistry;
}

const KernelRow& row_of(KernelId id) {
  return *std::find_if(kRegistry.begin(), kRegistry.end(), [&](const KernelRow& row) { return row.id == id; });
}

std::optional<KernelId> kernel_named(std::string_view name) {
  const auto found =
      std::find_if(kRegistry.begin(), kRegistry.end(), [&](const KernelRow& row) { return row.name == name; });
  return found == kRegistry.end() ? std::nullopt : std::optional(found->id);
}

}  // namespace spmm::plan
