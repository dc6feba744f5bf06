// Cuts the result of a product on CUDA into panels.
#include <algorithm>

#include "base/text.hpp"
#include "plan/need.hpp"
#include "plan/panels/tile_panels.hpp"
#include "plan/rule.hpp"
#include "spmm/saturate.hpp"

namespace spmm::plan {
namespace {

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

void cut(Choice& e, const Counts& s, const Limits& limits) {
  const KernelRow& kernel = row_of(e.kernel);
  e.operand_layout = kernel.b_by_columns    ? Layout::b_by_columns
                     : kernel.is_dense()    ? Layout::rows_file_order
                     : kernel.pads_blocks() ? Layout::rows
                                            : Layout::rows_unpadded;
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
    if (kernel.is_dense()) {
      max_c_blocks = std::min(max_c_blocks, rows * columns);
    } else {
      pair_step = static_cast<std::uint64_t>(s.num_pairs) / num + 1;
    }
  }
  e.panels = cut_panels(s.row_pairs, std::max(1u, columns), max_c_blocks, kernel.listing, listed_pairs_per_block(s.m()),
                        pair_step);
  const bool cuts_a_row = std::ranges::adjacent_find(e.panels, {}, &Panel::row_begin) != e.panels.end();
  if (limits.selection.keep != 0 && cuts_a_row) {  // its largest elements are looked for in one panel
    e.refusal = device_memory_refusal("device memory for a block row of C",
                                      e.device_need_bytes + columns * panel_c_block_bytes(s.m()));
  }
  share_out(e.panels, limits.num_gpus(), kernel.is_dense());
  if (kernel.expansion == Expansion::byte_planes && e.num_planes > 1) {
    for (Panel& panel : e.panels) panel.prefilter = can_saturate(panel, s);
  }
  // A list names blocks in file order; they are padded where they are gathered.
  const bool all_listed = std::ranges::all_of(e.panels, &Panel::expand);
  if (kernel.may_list() && all_listed && kernels::padded_side(s.m()) == s.m())
    e.operand_layout = Layout::rows_file_order;
  if (kernel.launches_each_c_block) limit_launches(e, s, limits);
}

}  // namespace spmm::plan
