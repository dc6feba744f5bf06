// The table of kernels.
#include "plan/registry.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace spmm::plan {
namespace {

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
     .panel_bytes = kernels::kRankPanelBytes},
    {.name = "small-blocks",
     .backend = Backend::cuda,
     .summary = "m = 1 to 4: sums of a result row in shared memory, hashed, ranked or dense by its pairs",
     .is_automatic = true,
     .max_side = kernels::kMaxSmallSide,
     .listing = Listing::bounded,
     .reads_unpadded = true},
    {.name = "dense-tiled",
     .backend = Backend::cuda,
     .summary = "dense copies and register tiles on CUDA cores",
     .is_automatic = true,
     .expansion = Expansion::elements},
    {.name = "dense-tensor",
     .backend = Backend::cuda,
     .summary = "dense byte planes on integer tensor cores (Hopper)",
     .is_automatic = true,
     .expansion = Expansion::byte_planes},
    {.name = "tile-tensor",
     .backend = Backend::cuda,
     .summary = "dense-tensor on those tiles of 128 elements that are not empty (Hopper)",
     .is_automatic = true,
     .expansion = Expansion::tiles,
     .may_outgrow = true},
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

}  // namespace spmm::plan
