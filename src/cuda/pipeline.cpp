// One product on one device: sort, count, decide, multiply panel by panel.
#include "cuda/pipeline.hpp"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "base/records/saturated_count.hpp"
#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"
#include "plan/registry.hpp"
#include "plan/rule.hpp"

namespace spmm::cuda {
namespace {

/// Whether some row of A has enough blocks to bring an element of C to kMaxVal: each is a sum over no more.
bool may_saturate(const plan::Statistics& s) {
  const std::uint64_t sure_blocks = sure_terms(s.max_element, s.max_element) / s.m();
  return std::min<std::uint64_t>(s.row_pairs.max_row_blocks, s.b_rows) > sure_blocks;
}

/// Takes the pairs of rows over.
plan::Statistics statistics_of(SortedOperands& sorted, const MatrixHeader& a, const MatrixHeader& b) {
  plan::Statistics s{.a = a,
                     .b = b,
                     .exact = true,
                     .num_pairs = static_cast<double>(sorted.num_pairs()),
                     .a_rows = sorted.a.index.num_rows,
                     .b_rows = sorted.b.index.num_rows,
                     .c_columns_end = sorted.c_columns,
                     .max_element = std::max(sorted.a.max_element, sorted.b.max_element),
                     .row_pairs = std::move(sorted.row_pairs)};
  const plan::RowPairs& rows = s.row_pairs;
  std::uint64_t num_c_blocks = 0;
  for (std::size_t x = 0; x < rows.num_runs(); ++x) {
    const std::uint64_t c_blocks = std::uint64_t{rows.first_row(x + 1) - rows.first_row(x)} * s.c_columns();
    num_c_blocks += std::min(rows.offsets[x + 1] - rows.offsets[x], c_blocks);
  }
  s.num_c_blocks = static_cast<double>(num_c_blocks);
  return s;
}

/// C blocks lie in the tiles that products reach.
void set_tiles(plan::Statistics& statistics, const TileMaps& tiles) {
  if (!tiles.counts.counted) return;
  statistics.tiles = tiles.counts;
  if (tiles.counts.rows.empty()) return;
  plan::TileExtent all;
  for (std::uint32_t row = 0; row < tiles.counts.rows.size(); ++row) {
    all.add(plan::tile_row_extent(tiles.grid, tiles.counts, row));
  }
  statistics.num_c_blocks = std::min(statistics.num_c_blocks, static_cast<double>(all.c_blocks));
}

/// Whether pairs of each block of A are wanted: all kernels but row-spread expand, or weigh rows by them.
bool wants_block_pairs(const plan::Execution& execution) {
  if (!plan::row_of(execution.id).spreads_rows) return true;
  return std::any_of(execution.panels.begin(), execution.panels.end(),
                     [](const plan::Panel& panel) { return panel.expand; });
}

/// What stays in file order.
void take_values(ParsedMatrix& from, SortedRows& to) {
  to.parsed_values = std::move(from.values);
  to.max_element = from.max_element;
  to.has_zeros = from.has_zeros;
  to.in_order = from.is_sorted;
}

}  // namespace

ProductStats Pipeline::run(ParsedOperands parsed, const Source& a, const Source& b, PanelTaker& taker) {
  ProductStats stats{.device = context_.properties().name};
  const Arranged product = arrange(std::move(parsed), a, b);
  stats.pairs = product.statistics.row_pairs.offsets.back();
  run_panels(product, taker, stats);
  stats.num_panels = execution_.panels.size();
  stats.peak_device_bytes = memory_.peak_bytes();
  return stats;
}

SortedOperands Pipeline::sort_and_count(ParsedOperands parsed, const Source& a, const Source& b) {
  SortedOperands sorted;
  sorted.key_bits = parsed.key_bits;
  sorted.m = a.header().m;
  sorted.nb = a.header().blocks_per_side();
  if (queued_ == nullptr) {
    queued_ = CountedSort::make(parsed, sorted.nb, build_room(a.header(), b.header(), sorted.m), memory_);
    queue_sort(parsed);
  }
  if (queued_ == nullptr || !queued_->take(parsed, sorted)) {
    queued_.reset();
    events_.timed(Stage::build, stream_, [&] { sort_rows(parsed, a, b, sorted, memory_, stream_); });
  }
  queued_.reset();
  take_values(parsed.a, sorted.a);
  take_values(parsed.b, sorted.b);
  sorted.a.keys = {};  // only B may be arranged by columns
  run_.check_cancelled();
  if (sorted.row_pairs.num_rows == 0) {
    events_.timed(Stage::count, stream_, [&] { count_pairs(sorted, memory_, stream_); });
  }
  return sorted;
}

void Pipeline::prepare_sort(const ParsedOperands& parsed, const MatrixHeader& a, const MatrixHeader& b) {
  if (parsed.a.keys.size() == 0 || parsed.b.keys.size() == 0) return;
  queued_ = CountedSort::make(parsed, a.blocks_per_side(), build_room(a, b, a.m), memory_);
}

std::uint64_t Pipeline::build_room(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t side) const {
  const std::uint64_t most = plan::operand_device_bytes(a, b, side).build_peak;
  return most - std::min(most, memory_.used_bytes());
}

void Pipeline::queue_sort(const ParsedOperands& parsed) {
  if (queued_ == nullptr) return;
  events_.timed(Stage::build, stream_, [&] { queued_->sort(parsed); });
  events_.timed(Stage::count, stream_, [&] { queued_->count(); });
}

Pipeline::Arranged Pipeline::arrange(ParsedOperands parsed, const Source& a, const Source& b, bool keeps_order) {
  SortedOperands sorted = sort_and_count(std::move(parsed), a, b);
  sorted.keeps_order = keeps_order;
  Arranged product{.statistics = statistics_of(sorted, a.header(), b.header())};
  plan::Statistics& statistics = product.statistics;
  DeviceOperands& operands = product.operands;
  decide(statistics);
  TileMaps tiles;
  if (execution_.wants_tile_counts) tiles = count_tiles_of(sorted, statistics);
  if (execution_.wants_row_counts) {
    events_.timed(Stage::count, stream_, [&] { fetch_row_pairs(sorted, sorted.a.index.num_rows, memory_, stream_); });
    statistics = statistics_of(sorted, a.header(), b.header());
    set_tiles(statistics, tiles);
    decide(statistics);
  }
  if (plan::row_of(execution_.id).expansion != plan::Expansion::tiles) tiles = {};
  if (plan::row_of(execution_.id).is_dense()) {  // reads every block once: pairs and order do not matter
    sorted.b_row_index = {};
    sorted.pair_offsets = {};
  } else if (wants_block_pairs(execution_)) {
    events_.timed(Stage::count, stream_, [&] { count_block_pairs(sorted, memory_, stream_); });
  }
  events_.timed(Stage::build, stream_,
                [&] { operands = arrange_operands(std::move(sorted), execution_.operand_layout, memory_, stream_); });
  operands.tiles = std::move(tiles);
  operands.max_row_blocks = static_cast<std::uint32_t>(statistics.row_pairs.max_row_blocks);
  if (operands.b_by_columns) {  // its columns are known once it is arranged
    statistics.b_columns = operands.b.num_rows;
    decide(statistics);
  }
  return product;
}

/// Decides with more statistics than before. Another kernel is chosen only if the memory for it is free: the product
/// waits for none. Returns whether the decision stands.
bool Pipeline::decide_anew(const plan::Statistics& more) {
  plan::Execution before = std::move(execution_);
  decide(more);
  if (execution_.id == before.id || execution_.device_need_bytes <= memory_.most_bytes()) return true;
  execution_ = std::move(before);  // other products hold what it would need
  return false;
}

/// Counts the tiles that an exact decision wants to know, and decides again unless they are far too many.
TileMaps Pipeline::count_tiles_of(const SortedOperands& sorted, plan::Statistics& statistics) {
  TileMaps tiles;
  const kernels::TileGrid grid = plan::tile_grid(statistics);
  events_.timed(Stage::count, stream_, [&] {
    tiles = count_tiles(grid, sorted.a.index, sorted.b.index, execution_.max_tile_stages, memory_, stream_);
  });
  if (!tiles.counts.counted) return tiles;  // the decision stands
  plan::Statistics with_tiles = statistics;
  set_tiles(with_tiles, tiles);
  if (!decide_anew(with_tiles)) return {};
  statistics = std::move(with_tiles);
  return tiles;
}

void Pipeline::decide(const plan::Statistics& statistics) {
  const auto timing = run_.clock.scope(Stage::plan);
  execution_ = decide_(statistics);
  plan::throw_if_refused(execution_);
}

std::unique_ptr<Multiplier> Pipeline::multiplier_of(const DeviceOperands& operands, unsigned long long* num_saturated) {
  return make_multiplier({.operands = operands,
                          .execution = execution_,
                          .memory = memory_,
                          .num_saturated = num_saturated,
                          .stream = stream_,
                          .events = events_,
                          .run = run_});
}

void Pipeline::run_panels(const Arranged& product, PanelTaker& taker, ProductStats& stats) {
  const auto& [statistics, operands] = product;
  const bool can_saturate = !execution_.panels.empty() && may_saturate(statistics);
  std::deque<PackedPanel> packed;
  const DeviceBuffer<unsigned long long> num_saturated(memory_, can_saturate ? 1 : 0, "count");
  if (can_saturate) check(cudaMemsetAsync(num_saturated.data(), 0, sizeof(unsigned long long), stream_.get()), "clear");
  taker.start(execution_, num_saturated.data());
  const std::vector<plan::Panel>& panels = execution_.panels;
  if (panels.empty()) {
    stats.num_blocks = taker.finish();
    return;
  }
  const std::unique_ptr<Multiplier> multiplier = multiplier_of(operands, num_saturated.data());
  if (multiplier->writes_arrays() && taker.takes_directly(execution_, statistics)) {
    packed.emplace_back(memory_, 0, statistics.m());
  } else {  // two panels, or more smaller ones in their memory
    const std::uint64_t max_c_blocks = plan::most_c_blocks(panels);
    const std::uint64_t num_that_fit = 2 * std::max(execution_.max_c_blocks, max_c_blocks) / max_c_blocks;
    const std::uint64_t num_packed = std::min({num_that_fit, taker.max_buffers(), std::uint64_t{panels.size()}});
    for (std::uint64_t x = 0; x < num_packed; ++x) packed.emplace_back(memory_, max_c_blocks, statistics.m());
  }
  const SettledAtEnd settled(stream_);  // kernels write pinned words of the panels and of the multiplier
  for (std::size_t x = 0; x < panels.size(); ++x) {
    run_.check_cancelled();
    PackedPanel& packing = packed[x % packed.size()];
    taker.wait_until_free(packing);
    events_.begin_panel(stream_, {.pairs = panels[x].num_pairs, .panel = x});
    multiplier->multiply(panels[x], packing.target);
    packing.number = panels[x].number;
    packing.ready.record(stream_);
    taker.push(packing);
  }
  stats.num_blocks = taker.finish();
  if (can_saturate) stats.num_saturated = fetch(num_saturated.data(), stream_);
}

}  // namespace spmm::cuda
