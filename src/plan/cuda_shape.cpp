// Memory and panels of a CUDA kernel.
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "kernels/dense/layout.hpp"
#include "kernels/tuning.hpp"
#include "plan/decide.hpp"
#include "plan/memory/device_bytes.hpp"
#include "plan/registry.hpp"
#include "spmm/saturate.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint32_t kTileRows = 128;  // of every dense kernel: elements

Refusal device_memory_refusal(const char* what, std::uint64_t need) {
  return {.kind = Refusal::Kind::device_memory, .what = what, .need_bytes = need};
}

/// Whether a kernel reads blocks padded to a side that it is compiled for.
bool pads_blocks(const KernelRow& kernel) {
  return !kernel.b_by_columns && !kernel.is_dense() && !kernel.reads_unpadded;
}

/// Whether panels may be multiplied from lists of pairs, which name blocks in file order.
bool may_list(const KernelRow& kernel) {
  return pads_blocks(kernel) && kernel.listing != Listing::bounded;
}

/// Whether that side is not m itself.
bool is_padded(std::uint32_t m) {
  return kernels::padded_side(m) != m;
}

/// C blocks of a panel: as many as are useful and fit in addition to the operands.
void size_panels(Choice& e, const KernelRow& kernel, const Counts& s, const OperandBytes& operands) {
  const std::uint64_t record = output_record_bytes(s.m());
  const std::uint64_t per_c_block = panel_c_block_bytes(s.m());
  const std::uint64_t smallest = std::max(operands.build_peak, operands.resident + per_c_block);
  if (smallest > e.device_limit_bytes) {
    e.refusal = device_memory_refusal("device memory", smallest);
    return;
  }
  const std::uint64_t left = e.device_limit_bytes - operands.resident;
  const std::uint64_t useful = std::min<std::uint64_t>(kernel.panel_bytes / record + 1, std::uint64_t{s.nb()} * s.nb());
  e.max_c_blocks = std::clamp<std::uint64_t>(left / per_c_block, 1, std::max<std::uint64_t>(1, useful));
  e.device_need_bytes = std::max(operands.build_peak, operands.resident + e.max_c_blocks * per_c_block);
}

/// Panels of whole block rows in half of the free memory, and the group of block columns of B that fits in addition to
/// them as a dense operand.
void size_dense(Choice& e, const KernelRow& kernel, const Counts& s, const OperandBytes& operands) {
  const bool in_planes = kernel.expansion == Expansion::byte_planes;
  const auto refuse = [&](std::uint64_t need) {
    e.refusal = device_memory_refusal("device memory for dense operands", std::max(need, e.device_limit_bytes + 1));
  };
  const std::uint64_t per_c_block = dense_panel_c_block_bytes(s.m());
  const std::uint64_t free = e.device_limit_bytes - operands.resident;
  const std::uint64_t c_blocks = s.nb() == 0 ? 0 : std::min(e.max_c_blocks, free / 2 / per_c_block) / s.nb() * s.nb();
  const std::uint64_t most_side = in_planes ? kernels::kMaxFullSide : kernels::DenseOperands::kMaxSide;
  // A block row, and a tile of block columns (or one): less is refused with this need. dense-tiled, which is what fits
  // in the least memory, takes the rows and columns of a tile: with less it would take minutes.
  const std::uint32_t of_tile = in_planes ? 1 : std::max(1u, kTileRows / s.m());
  const std::uint64_t least_rows = std::clamp<std::uint64_t>(s.a_rows, 1, of_tile);
  if (c_blocks == 0 || c_blocks < least_rows * s.nb() || std::uint64_t{s.nb()} * s.m() > most_side)
    return refuse(operands.resident + 2 * per_c_block * s.nb() * least_rows);
  const auto rows =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(c_blocks / s.nb(), 1, std::max<std::uint64_t>(1, s.a_rows)));
  const std::uint64_t flags = std::uint64_t{rows} * s.nb() + 2 * sizeof(std::uint32_t);  // of tiles; far fewer
  const kernels::DenseOperands elements{.nb = s.nb(), .m = s.m()};
  kernels::TileGrid grid{
      .m = s.m(), .num_rows = rows, .nb = s.nb(), .num_columns = s.nb(), .num_planes = 2, .is_full = true};
  std::uint64_t taken = 0;
  for (e.num_planes = in_planes ? kernels::num_dense_planes(s.max_element) : 0;; e.num_planes = 2) {
    grid.num_planes = e.num_planes;
    taken = std::uint64_t{rows} * s.nb() * per_c_block + flags +
            (in_planes ? grid.planes_held() * grid.a_plane_bytes() : elements.a_bytes(rows));
    const std::uint64_t left = free - std::min(free, taken);
    e.dense_columns = in_planes ? grid.with_columns_in(left).num_columns : elements.columns_in(left);
    if (e.dense_columns != 0 || e.num_planes != 3) break;
  }
  if (e.dense_columns < std::min(of_tile, s.nb())) e.dense_columns = 0;
  grid.num_columns = e.dense_columns != 0 ? e.dense_columns : std::min(std::max(64u, of_tile), s.nb());
  const std::uint64_t need =
      operands.resident + taken +
      (in_planes ? grid.planes_held() * grid.b_plane_bytes() : elements.b_bytes(grid.num_columns));
  if (e.dense_columns == 0) return refuse(need);
  e.max_c_blocks = c_blocks;
  e.device_need_bytes = std::max(operands.build_peak, need);
}

/// Before tiles are counted: all of them are there.
TileCounts all_tiles(const kernels::TileGrid& grid, std::uint64_t b_blocks) {
  const TileExtent row = max_tile_row(grid);
  TileCounts all{.counted = true, .b_tiles = max_b_tiles(grid, b_blocks)};
  all.rows.assign(grid.num_row_tiles(), {.a_tiles = static_cast<std::uint32_t>(row.a_tiles),
                                         .stages = static_cast<std::uint32_t>(row.stages),
                                         .c_tiles = static_cast<std::uint32_t>(row.c_tiles),
                                         .c_columns = grid.nb});
  return all;
}

/// Panels of whole rows of tiles, as large as they are useful and fit in addition to the tiles of B.
void size_tiles(Choice& e, const kernels::TileGrid& grid, const TileCounts& tiles, const Counts& s,
                const OperandBytes& operands) {
  constexpr std::uint64_t kMostStages = std::uint64_t{1} << 31;  // of a panel: they are numbered in 32 bits
  const std::uint64_t maps = grid.map_bytes();
  const std::uint64_t fixed =
      operands.resident + maps +
      kernels::OperandTileLayout(tiles.b_tiles, grid.num_column_tiles(), kernels::kTileBytesB).total;
  for (std::uint64_t c_blocks = e.max_c_blocks;; c_blocks /= 2) {
    e.panels = cut_tile_panels(grid, tiles, c_blocks);
    TileExtent most;
    for (const Panel& panel : e.panels) most.raise(tile_panel_extent(grid, tiles, panel));
    e.max_c_blocks = most.c_blocks;
    e.device_need_bytes = std::max(operands.build_peak + maps, fixed + tile_panel_bytes(most, s.m()));
    if (e.device_need_bytes <= e.device_limit_bytes && most.stages <= kMostStages) return;
    if (most.row_tiles <= 1) break;
  }
  e.refusal = device_memory_refusal("device memory for tiles", e.device_need_bytes);
}

/// Pinned buffers of each device: as many as are useful, fewer where the host has less.
void size_ring(Choice& e, std::uint64_t num_devices) {
  const std::uint64_t bytes = num_devices * kernels::kRingSlotBytes;
  e.num_buffers = kernels::kNumRingSlots;
  while (e.num_buffers > 1 && e.num_buffers * bytes > e.host_limit_bytes) --e.num_buffers;
  e.host_need_bytes = e.num_buffers * bytes;
  if (e.host_need_bytes > e.host_limit_bytes) e.refusal = host_memory_refusal(e.host_need_bytes);
}

/// Whether the largest element everywhere would saturate a panel on average: else high bytes prove nothing.
/// A C block whose sums do not grow fast enough gives up by itself, so a prefilter in vain costs little.
bool can_saturate(const Panel& panel, const Counts& s) {
  const auto largest = static_cast<double>(s.max_element);
  const double c_blocks = static_cast<double>(panel.num_rows) * panel.num_columns;
  return static_cast<double>(panel.num_pairs) / c_blocks * s.m() * largest * largest >= kMaxVal;
}

/// Most pairs of a run, or C blocks that it may have.
std::uint64_t most_of_run(const RowPairs& pairs, bool is_bounded, std::uint32_t num_columns) {
  std::uint64_t most = 0;
  for (std::size_t x = 0; x < pairs.num_runs(); ++x) {
    most = std::max(most, is_bounded ? run_bound(pairs, x, num_columns) : pairs.offsets[x + 1] - pairs.offsets[x]);
  }
  return most;
}

/// host-driven launches once per C block.
void limit_launches(Choice& e, const Counts& s, const Limits& limits) {
  std::uint64_t launches = 0;
  for (const Panel& panel : e.panels) launches += panel.max_c_blocks();
  if (limits.force || s.b_columns == 0 || launches <= kernels::kMaxHostDrivenLaunches) return;
  e.refusal = {.kind = Refusal::Kind::usage,
               .what = "ProductOptions::kernel host-driven",
               .problem = text("up to ", launches, " launches, one per result block; more than ",
                               kernels::kMaxHostDrivenLaunches, " take minutes"),
               .hint = "use another kernel, or ProductOptions::force = true"};
}

/// Why a kernel cannot run a product, or "".
std::string refusal_of(const KernelRow& kernel, const Counts& s, const Limits& limits) {
  if (kernel.max_side != 0 && s.m() > kernel.max_side) return text("takes m up to ", kernel.max_side, ", not ", s.m());
  if (kernel.max_columns != 0 && s.c_columns() > kernel.max_columns)
    return text("takes up to ", kernel.max_columns, " block columns, not ", s.c_columns());
  if (kernel.expansion == Expansion::tiles) {
    if (limits.num_gpus() > 1) return "runs on one device";  // panels of several are cut between any two rows
    if (std::uint64_t{s.nb()} * s.m() > kernels::kMaxTileSide) return text("takes n up to ", kernels::kMaxTileSide);
    if (s.tiles.counted && s.tiles.rows.empty() && s.tiles.stages != 0) return "too many products of tiles";
  }
  return kernel.refusal == nullptr ? "" : kernel.refusal(s);
}

/// Asks for the tiles of tile-tensor if another kernel takes long enough for them to be worth counting.
void want_tile_counts(Choice& e, const Counts& s, const Limits& limits) {
  if (limits.kernel != nullptr || s.tiles.counted || !limits.has_dense_tensor() || limits.num_gpus() > 1) return;
  const std::uint64_t worth = tile_stages_worth(s);
  // They lie where a copy of A's elements will be, or could be.
  if (worth == 0 || tile_grid(s).map_bytes() > std::uint64_t{2} * s.m() * s.m() * s.a.num_blocks) return;
  e.wants_tile_counts = true;
  e.max_tile_stages = worth;
}

/// Panels of a product that several devices share: a few for each, unless they were tiny.
std::uint64_t num_shared_panels(const Choice& e, const Counts& s, std::uint64_t num_gpus) {
  constexpr std::uint64_t kOfDevice = 8;  // it downloads one while it computes the next
  const std::uint64_t least_c_blocks = kernels::kRingSlotBytes / output_record_bytes(s.m());
  const auto c_blocks = static_cast<std::uint64_t>(s.num_c_blocks);
  const std::uint64_t of_device = std::max(kOfDevice, c_blocks / e.max_c_blocks / num_gpus + 1);
  const std::uint64_t useful = std::max<std::uint64_t>(1, c_blocks / least_c_blocks);
  return useful < num_gpus ? useful : std::min(of_device, useful / num_gpus) * num_gpus;
}

}  // namespace

Choice cuda_shape(const KernelRow& kernel, const Counts& s, const Limits& limits) {
  Choice e;
  e.backend = Backend::cuda;
  e.kernel = kernel.name;
  e.num_threads = std::max(1u, limits.num_threads);
  e.host_limit_bytes = limits.host_bytes;
  e.device_limit_bytes = limits.device_bytes();
  const bool lacks_hopper = kernel.needs_hopper && !limits.has_dense_tensor();
  const std::string problem = lacks_hopper ? text(limits.gpus.front().name, " has no warpgroup matrix products")
                                           : refusal_of(kernel, s, limits);
  if (!problem.empty()) {
    e.refusal = {.kind = lacks_hopper ? Refusal::Kind::device : Refusal::Kind::usage,
                 .what = text("ProductOptions::kernel ", kernel.name),
                 .problem = problem,
                 .hint = "leave ProductOptions::kernel out"};
    return e;
  }
  OperandBytes operands = operand_device_bytes(s.a, s.b, pads_blocks(kernel) ? kernels::padded_side(s.m()) : s.m());
  if (limits.selection.upper_triangle) {  // begin and end of each block's pairs
    operands.resident += std::uint64_t{8} * s.a.num_blocks;
    operands.build_peak += std::uint64_t{8} * s.a.num_blocks;
  }
  size_panels(e, kernel, s, operands);
  if (!e.is_refused() && kernel.expansion == Expansion::tiles) {
    e.num_planes = kernels::num_byte_planes(s.max_element);
    const kernels::TileGrid grid = tile_grid(s);
    size_tiles(e, grid, s.tiles.counted ? s.tiles : all_tiles(grid, s.b.num_blocks), s, operands);
    if (!s.tiles.counted) e.panels.clear();
  } else if (!e.is_refused() && kernel.is_dense()) {
    size_dense(e, kernel, s, operands);
  }
  if (!e.is_refused()) size_ring(e, limits.num_gpus());
  if (e.is_refused()) return e;
  const std::uint64_t record = output_record_bytes(s.m());
  e.panel_bytes = e.max_c_blocks * record;
  const bool in_file_order = kernel.is_dense() || (may_list(kernel) && is_listed(s) && !is_padded(s.m()));
  e.operand_layout = kernel.b_by_columns   ? Layout::b_by_columns
                     : in_file_order       ? Layout::rows_file_order
                     : pads_blocks(kernel) ? Layout::rows
                                           : Layout::rows_unpadded;
  return e;
}

void cut_row_panels(Choice& e, const Counts& s, const Limits& limits) {
  const KernelRow& kernel = row_of(e.kernel);
  if (kernel.expansion == Expansion::tiles) {  // cut with its sizes, once tiles are counted
    e.wants_tile_counts = !s.tiles.counted;
    e.max_tile_stages = kAnyTileStages;
    return;
  }
  want_tile_counts(e, s, limits);
  // Runs that are an eighth of a panel leave panels unevenly filled; a kernel that lists nothing cuts between rows.
  const std::uint32_t columns = kernel.is_dense()      ? s.nb()
                                : !kernel.b_by_columns ? s.c_columns()
                                : s.b_columns != 0     ? s.b_columns
                                                       : std::min(s.b.num_blocks, s.nb());
  e.wants_row_counts = s.row_pairs.rows_per_run > 1 &&
                       (kernel.listing == Listing::never ||
                        most_of_run(s.row_pairs, kernel.listing == Listing::bounded, columns) > e.max_c_blocks / 8);
  if (e.wants_row_counts) return;
  std::uint64_t max_c_blocks = e.max_c_blocks;
  std::uint64_t pair_step = 0;
  if (limits.num_gpus() > 1 && s.a_rows != 0) {  // panels of about equal work
    const std::uint64_t num = num_shared_panels(e, s, limits.num_gpus());
    const std::uint64_t step = std::max(1u, kTileRows / s.m());  // block rows of a tile
    const std::uint64_t rows = ((s.a_rows - 1) / num / step + 1) * step;
    if (kernel.is_dense()) max_c_blocks = std::min(max_c_blocks, rows * columns);
    if (!kernel.is_dense()) pair_step = static_cast<std::uint64_t>(s.num_pairs) / num + 1;
  }
  e.panels = cut_panels(s.row_pairs, std::max(1u, columns), max_c_blocks, kernel.listing, listed_pairs_per_block(s.m()),
                        pair_step);
  const bool cuts_a_row = std::ranges::adjacent_find(e.panels, {}, &Panel::row_begin) != e.panels.end();
  if (limits.selection.keep != 0 && cuts_a_row) {  // its largest elements are looked for in one panel
    e.refusal = device_memory_refusal("device memory for a block row of C",
                                      e.device_need_bytes + columns * panel_c_block_bytes(s.m()));
  }
  share_out(e.panels, limits.num_gpus(), kernel.is_dense());
  if (kernel.prefilters && e.num_planes > 1) {
    for (Panel& panel : e.panels) panel.prefilter = can_saturate(panel, s);
  }
  if (may_list(kernel)) {
    const bool all_listed =
        std::all_of(e.panels.begin(), e.panels.end(), [](const Panel& panel) { return panel.expand; });
    // Blocks are padded where they are gathered.
    e.operand_layout = all_listed && !is_padded(s.m()) ? Layout::rows_file_order : Layout::rows;
  }
  if (kernel.launches_each_c_block) limit_launches(e, s, limits);
}

}  // namespace spmm::plan
