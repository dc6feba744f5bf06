// What a product needs of memory, and the threads, buffers and panels that fit.
#include "plan/need.hpp"

#include <algorithm>
#include <string>

#include "base/records/selector.hpp"
#include "base/text.hpp"
#include "kernels/dense/layout.hpp"
#include "kernels/tuning.hpp"
#include "plan/panels/tile_panels.hpp"
#include "plan/rule.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint64_t kWorkBytes = 64u << 20;  // on the device: of readers, then of the library; flags and counts

// ---- CPU ----

/// The largest output buffers that are useful. Larger ones have left the caches when they are used again; with smaller
/// ones threads wait for each other's older units. Multiply with 8, 4, 2 and 1 MB, two threads on a quiet machine: P3
/// 87, 73, 94, 114 ms, P5 221, 219, 243, 254, 27-point stencil, m = 8: 190, 200, 221, 283. Pages that a small product
/// uses a part of are cleared by the system all the same: 600 products of n = 1,024, m = 8, k = 1,000, four at a time
/// on two cores, 190 to 270 a second with 8 MB, 640 to 870 with an eighth of the result.
std::uint64_t useful_buffer_bytes(const Counts& s, std::uint64_t record) {
  constexpr std::uint64_t kNearBytes = 4u << 20;
  constexpr std::uint64_t kLeastBytes = 256u << 10;
  constexpr double kBuffersOfResult = 8;
  const double bytes = s.num_c_blocks * static_cast<double>(record) / kBuffersOfResult;
  if (bytes >= static_cast<double>(kNearBytes)) return std::max(record, kNearBytes);
  return std::max({record, kLeastBytes, static_cast<std::uint64_t>(bytes)});
}

Choice need_on_cpu(const KernelRow& kernel, const Counts& s, const Limits& limits) {
  constexpr std::uint64_t kEnoughBytes = 512u << 10;  // rather than smaller buffers, fewer threads
  Choice e;
  e.backend = Backend::cpu;
  e.kernel = kernel.name;
  e.host_limit_bytes = limits.host_bytes;
  const std::uint64_t record = output_record_bytes(std::max(1u, s.m()));
  const HostBytes bytes = kernel.host_bytes(s.a, s.b, limits.isa, s.a_span);
  const std::uint64_t of_selector = RecordSelector::memory_bytes(
      limits.selection, s.m(), static_cast<std::uint32_t>(std::min<std::uint64_t>(s.nb(), s.b.num_blocks)));
  const auto total = [&](unsigned threads, std::uint64_t buffers, std::uint64_t buffer_bytes) {
    return bytes.total(threads, buffers, buffer_bytes) + threads * of_selector;
  };
  const std::uint64_t useful = useful_buffer_bytes(s, record);
  const std::uint64_t enough = std::max<std::uint64_t>(1, std::min(useful, kEnoughBytes) / record) * record;
  const unsigned wanted = std::max(1u, limits.num_threads);
  for (unsigned threads = kernel.max_threads == 0 ? wanted : std::min(wanted, kernel.max_threads);
       threads > 0 && e.panel_bytes < enough; threads = threads * 3 / 4) {
    if (total(threads, 0, 0) > limits.host_bytes) continue;
    const std::uint64_t room = limits.host_bytes - bytes.resident - threads * (bytes.per_thread + of_selector);
    // With two buffers a thread and two for the sink no thread waits; the last one of fewer than that is kept for the
    // oldest unit, so that one more than there are threads is the least.
    for (const unsigned buffers : {2 * threads + 2, (3 * threads + 3) / 2, threads + 1}) {
      const std::uint64_t whole = std::min(useful, room / buffers) / record * record;
      if (whole <= e.panel_bytes) continue;
      e.num_threads = threads;
      e.num_buffers = buffers;
      e.panel_bytes = whole;
      if (whole >= enough) break;
    }
  }
  if (e.panel_bytes == 0) {
    e.refusal = host_memory_refusal(total(1, 2, record));
  } else {
    e.host_need_bytes = total(e.num_threads, static_cast<unsigned>(e.num_buffers), e.panel_bytes);
  }
  return e;
}

// ---- CUDA ----

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

/// Everything that a panel of tile-tensor takes: its C blocks, packed records, tiles of A and lists.
std::uint64_t tile_panel_bytes(const TileExtent& panel, std::uint32_t m) {
  return panel.c_blocks * dense_panel_c_block_bytes(m) +
         kernels::OperandTileLayout(panel.a_tiles, panel.row_tiles, kernels::kTileBytesA).total +
         kernels::TileListLayout(panel.row_tiles, panel.c_tiles, panel.stages).total;
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
    const TileExtent most = most_of_panels(grid, tiles, e.panels);
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

/// Scratch of a row of small-blocks must stay within what its C blocks bring: a long row has a work unit for each of
/// its chunks.
bool small_blocks_fit(const Counts& s) {
  if (s.nb() == 0 || !s.exact) return true;
  const std::uint64_t longest = s.row_pairs.max_row_pairs;
  if (kernels::sorts_rows(s.m(), longest, std::max(1u, s.c_columns()))) return true;
  const kernels::SmallShape least = kernels::small_shape(s.m(), s.c_columns(), kernels::kSmallestBytes);
  constexpr std::uint64_t kUnitBytes = 28;  // the unit, its look-back state, its records and their place
  const std::uint64_t per_pair = panel_c_block_bytes(s.m()) - 3 * output_record_bytes(s.m());
  return longest <= least.hash_slots || (kUnitBytes * (least.rank_chunks + 1) <= per_pair * (least.hash_slots + 1) &&
                                         kUnitBytes * (least.dense_chunks + 1) <= per_pair * (least.rank_pairs + 1));
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
  if (kernel.name == "small-blocks" && !small_blocks_fit(s)) return "rows with many pairs, and too many block columns";
  return "";
}

Choice need_on_cuda(const KernelRow& kernel, const Counts& s, const Limits& limits) {
  Choice e;
  e.backend = Backend::cuda;
  e.kernel = kernel.name;
  e.num_threads = std::max(1u, limits.num_threads);
  e.host_limit_bytes = limits.host_bytes;
  e.device_limit_bytes = limits.device_bytes();
  const bool lacks_hopper = kernel.needs_hopper() && !limits.has_dense_tensor();
  const std::string problem = lacks_hopper ? text(limits.gpus.front().name, " has no warpgroup matrix products")
                                           : refusal_of(kernel, s, limits);
  if (!problem.empty()) {
    e.refusal = {.kind = lacks_hopper ? Refusal::Kind::device : Refusal::Kind::usage,
                 .what = text("ProductOptions::kernel ", kernel.name),
                 .problem = problem,
                 .hint = "leave ProductOptions::kernel out"};
    return e;
  }
  OperandBytes operands = operand_device_bytes(s.a, s.b, kernel.pads_blocks() ? kernels::padded_side(s.m()) : s.m());
  if (limits.selection.upper_triangle) {  // begin and end of each block's pairs
    operands.resident += std::uint64_t{8} * s.a.num_blocks;
    operands.build_peak += std::uint64_t{8} * s.a.num_blocks;
  }
  size_panels(e, kernel, s, operands);
  if (e.is_refused()) return e;
  if (kernel.expansion == Expansion::tiles) {
    const kernels::TileGrid grid = tile_grid(s);
    e.num_planes = grid.num_planes;
    size_tiles(e, grid, s.tiles.counted ? s.tiles : all_tiles(grid, s.b.num_blocks), s, operands);
    if (!s.tiles.counted) e.panels.clear();
  } else if (kernel.is_dense()) {
    size_dense(e, kernel, s, operands);
  }
  if (!e.is_refused()) size_ring(e, limits.num_gpus());
  return e;
}

}  // namespace

Choice need(const KernelRow& kernel, const Counts& s, const Limits& limits) {
  return kernel.backend == Backend::cuda ? need_on_cuda(kernel, s, limits) : need_on_cpu(kernel, s, limits);
}

OperandBytes operand_device_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t side) {
  const std::uint64_t parsed_a = std::uint64_t{2} * a.m * a.m * a.num_blocks;
  const std::uint64_t parsed_b = std::uint64_t{2} * b.m * b.m * b.num_blocks;
  const std::uint64_t values_a = std::uint64_t{2} * side * side * a.num_blocks;
  const std::uint64_t values_b = std::uint64_t{2} * side * side * b.num_blocks;
  constexpr std::uint64_t kCounts = 4 + 8 + 8;  // per block of A: block row of B, pairs before it, pairs before its row
  constexpr std::uint64_t kKey = 8;
  constexpr std::uint64_t kSort = 8 + 4 + 4;  // the other key buffer, record numbers twice
  const std::uint64_t index = IndexLayout(a.num_blocks, a.blocks_per_side()).bytes() + a.num_blocks * kCounts +
                              2 * IndexLayout(b.num_blocks, b.blocks_per_side()).bytes();  // B in both orders
  const std::uint64_t keys = (std::uint64_t{a.num_blocks} + b.num_blocks) * kKey;
  const std::uint64_t sort = std::max(a.num_blocks, b.num_blocks) * kSort;
  const std::uint64_t gathers = std::max(parsed_a + parsed_b + values_a, values_a + parsed_b + values_b);  // A, then B
  return {.resident = values_a + values_b + index + kWorkBytes,
          .build_peak = gathers + index + keys + sort + kWorkBytes};
}

std::uint64_t upload_section_slots(const MatrixHeader& a, const MatrixHeader& b, unsigned num_readers) {
  // Each launch comes with two events and a start, 12 us or so. S6 parses 16 MB at a time in 2.20 ms of kernels, 256 MB
  // in 1.60. A reader has some sections: none is idle for long in the end.
  constexpr std::uint64_t kFewest = 2, kMost = 16, kOfReader = 2;
  const std::uint64_t slot_of_readers = num_readers * kernels::kRingSlotBytes;
  const std::uint64_t room = kWorkBytes + std::uint64_t{2} * a.m * a.m * a.num_blocks;
  const std::uint64_t all = (std::uint64_t{a.num_blocks} + b.num_blocks) * input_record_bytes(a.m);
  return std::clamp(all / (kOfReader * slot_of_readers), kFewest, std::min(kMost, room / slot_of_readers));
}

bool has_device_row_table(std::uint64_t a_blocks, std::uint32_t nb) {
  return a_blocks >= kernels::kRowTableBlocks && nb <= 2 * a_blocks;
}

std::uint64_t dense_panel_c_block_bytes(std::uint32_t m) {
  return 2 * output_record_bytes(m)  // packed
         + std::uint64_t{4} * m * m  // values
         + 8 + 1 + 8                 // coordinates, flag, position
         + 8;                        // share of library work space
}

std::uint64_t panel_c_block_bytes(std::uint32_t m) {
  constexpr std::uint64_t kPairBytes = 48;
  return dense_panel_c_block_bytes(m) + kPairBytes;
}

}  // namespace spmm::plan
