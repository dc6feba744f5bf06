// One product on one device: upload, sort, count, decide, multiply panel by panel, download.
#include "cuda/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "base/records/saturated_count.hpp"
#include "cuda/arrays/arrays.hpp"
#include "cuda/arrays/gathered.hpp"
#include "cuda/multipliers/multiplier.hpp"
#include "cuda/output/download.hpp"
#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"
#include "plan/registry.hpp"
#include "plan/rule.hpp"

namespace spmm::cuda {
namespace {

/// Blocks of a row of A that cannot bring an element of C to kMaxVal: each is a sum over no more.
std::uint64_t sure_blocks(const plan::Statistics& s) {
  return sure_terms(s.max_element, s.max_element) / s.m();
}

bool may_saturate(const plan::Statistics& s) {
  return std::min<std::uint64_t>(s.row_pairs.max_row_blocks, s.b_rows) > sure_blocks(s);
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

/// C blocks, about: of groups of runs, since each takes the host 60 ns, and the device waits.
double expected_c_blocks(const plan::Statistics& statistics) {
  constexpr std::size_t kGroups = 256;
  const plan::RowPairs& pairs = statistics.row_pairs;
  const double columns = statistics.c_columns();
  const double b_row_blocks =
      static_cast<double>(statistics.b.num_blocks) / static_cast<double>(std::max<std::uint64_t>(1, statistics.b_rows));
  // Of a row with `row_pairs` pairs, if B's blocks lie anywhere in the columns.
  const auto expected = [&](double row_pairs) {
    if (b_row_blocks >= columns) return std::min(columns, row_pairs);
    const double blocks = columns * -std::expm1(row_pairs / b_row_blocks * std::log1p(-b_row_blocks / columns));
    return std::min(blocks, row_pairs);
  };
  const std::size_t num_runs = pairs.num_runs();
  const std::size_t group = (num_runs + kGroups - 1) / kGroups;
  double sum = 0;
  for (std::size_t run = 0; run < num_runs; run += group) {
    const std::size_t end = std::min(run + group, num_runs);
    const double num_rows = pairs.first_row(end) - pairs.first_row(run);
    sum += num_rows * expected(static_cast<double>(pairs.offsets[end] - pairs.offsets[run]) / num_rows);
  }
  return sum;
}

/// C blocks of the largest panel.
std::uint64_t most_c_blocks(const std::vector<plan::Panel>& panels) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : panels) most = std::max(most, panel.max_c_blocks());
  return most;
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

/// One product on one device.
ProductStats multiply_to(PanelOutput& output, const Source& a, const Source& b, plan::Execution& execution,
                         const plan::Decide& decide, const DeviceRun& run) {
  const DeviceGuard guard(run.device->device());
  Pipeline pipeline({.device = run.device, .memory = run.memory}, execution, decide, run);
  if (run.arrays != nullptr) pipeline.memory().cut_small_buffers();
  if (run.arrays != nullptr && !run.arrays->is_timed && run.clock.trace() == nullptr) pipeline.events().stop();
  std::optional<GatheredProducts> gathered;
  ParsedOperands parsed;
  if (run.arrays != nullptr && run.arrays->batch != nullptr) {
    gathered.emplace(*run.arrays, pipeline.upload_target(), pipeline.ring());
    parsed = pipeline.read(gathered->operands(), a.header());
    gathered->drop_read();
  } else if (run.arrays != nullptr) {
    check_arrays(*run.arrays, *run.device);
    parsed = pipeline.read(*run.arrays, a.header());
  } else {
    const std::array targets{pipeline.upload_target()};
    const WorkAhead ahead{.prepare = [&](const ParsedOperands& p) { pipeline.prepare_sort(p, a.header(), b.header()); },
                          .queue = [&](const ParsedOperands& p) { pipeline.queue_sort(p); }};
    parsed = std::move(upload(a, b, pipeline.ring(), targets, run, ahead).front());
  }
  ProductStats stats = pipeline.run(std::move(parsed), a, b, output);
  if (gathered) gathered->finish();
  StageSpans spans;
  pipeline.collect(spans);
  add_spans(std::move(spans), run.clock);
  execution = pipeline.execution();
  execution.expected_panels = execution.panels.size();
  return stats;
}

ProductStats multiply_alone(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                            const plan::Decide& decide, const DeviceRun& run) {
  OnlyOutput output(sink, a.header().m);
  return multiply_to(output, a, b, execution, decide, run);
}

}  // namespace

ProductStats Pipeline::run(ParsedOperands parsed, const Source& a, const Source& b, PanelOutput& output) {
  ProductStats stats{.device = context_.properties().name};
  SortedOperands sorted = sort_and_count(std::move(parsed), a, b);
  stats.pairs = sorted.num_pairs();
  plan::Statistics statistics = statistics_of(sorted, a.header(), b.header());
  const DeviceOperands operands = decide_and_arrange(std::move(sorted), statistics);
  output.start(execution_, statistics);
  stats.num_panels = execution_.panels.size();
  if (!execution_.panels.empty()) {
    run_panels(operands, statistics, output, stats);
  } else if (run_.arrays != nullptr) {
    ArrayCollector(*run_.arrays, memory_, events_, nullptr).finish();  // arrays without blocks
  }
  stats.peak_device_bytes = memory_.peak_bytes();
  return stats;
}

SortedOperands Pipeline::sort_and_count(ParsedOperands parsed, const Source& a, const Source& b) {
  SortedOperands sorted;
  sorted.key_bits = parsed.key_bits;
  sorted.m = a.header().m;
  sorted.nb = a.header().blocks_per_side();
  const bool may_count =
      queued_ != nullptr || CountedSort::may_sort(parsed.a.keys.size(), parsed.b.keys.size(), sorted.m, sorted.nb,
                                                  parsed.a.is_sorted && parsed.b.is_sorted);
  if (may_count && queued_ == nullptr) {
    events_.timed(Stage::build, stream_, [&] { queued_ = std::make_unique<CountedSort>(parsed, sorted.nb, memory_); });
    queue_sort(parsed);
  }
  if (may_count) sorted.ahead = gather_ahead(parsed, a.header(), b.header());
  if (!may_count || !queued_->take(parsed, sorted)) {
    queued_.reset();
    sorted.ahead = {};  // nothing was gathered, since the matrix was not sorted
    events_.timed(Stage::build, stream_, [&] { sort_rows(parsed, a, b, !may_count, sorted, memory_, stream_); });
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
  if (parsed.a.keys.size() == 0 || parsed.b.keys.size() == 0 || !plan::has_room_to_sort_ahead(a, b)) return;
  if (!CountedSort::may_sort(a.num_blocks, b.num_blocks, a.m, a.blocks_per_side())) return;
  queued_ = std::make_unique<CountedSort>(parsed, a.blocks_per_side(), memory_);
}

void Pipeline::queue_sort(const ParsedOperands& parsed) {
  if (queued_ == nullptr) return;
  events_.timed(Stage::build, stream_, [&] { queued_->sort(parsed); });
  events_.timed(Stage::count, stream_, [&] { queued_->count(); });
}

/// Gathers blocks as the decision made from the headers wants them, or, if there is little to gather, may want them,
/// while the host waits for what has been counted and makes the exact one. Few block columns: rows cannot be too long.
GatheredAhead Pipeline::gather_ahead(const ParsedOperands& parsed, const MatrixHeader& a, const MatrixHeader& b) {
  constexpr std::uint64_t kLittle = 64u << 20;  // 20 us; a decision takes as long
  const plan::Layout layout = execution_.operand_layout;
  const bool by_rows = layout == plan::Layout::rows || layout == plan::Layout::rows_unpadded;
  const std::uint32_t side = side_of(by_rows ? layout : plan::Layout::rows, a.m);
  const std::uint64_t block_bytes = std::uint64_t{2} * side * side;
  const bool is_little = block_bytes * (std::uint64_t{a.num_blocks} + b.num_blocks) <= kLittle;
  const bool is_dense = plan::row_of(execution_.id).is_dense() && execution_.is_named;
  if (!queued_->counts_pairs() || a.blocks_per_side() > kernels::kBitmapColumns) return {};
  if (is_dense || layout == plan::Layout::b_by_columns || !(by_rows || is_little)) return {};
  GatheredAhead ahead{.side = side, .a_values = {}, .b_values = {}};
  const auto gathers = [&](const ParsedMatrix& matrix) { return !matrix.is_sorted || side != a.m; };
  events_.timed(Stage::build, stream_, [&] {
    if (gathers(parsed.a)) ahead.a_values = allocate_values(parsed.a.keys.size(), side, memory_);
    if (gathers(parsed.b) && plan::has_room_to_gather_ahead(a, b, side)) {
      ahead.b_values = allocate_values(parsed.b.keys.size(), side, memory_);
    }
    queued_->gather_values(parsed, a.m, ahead);
  });
  return ahead;
}

/// The exact decision, and the operands as it wants them.
DeviceOperands Pipeline::decide_and_arrange(SortedOperands sorted, plan::Statistics& statistics) {
  decide(statistics);
  TileMaps tiles;
  if (execution_.wants_tile_counts) tiles = count_tiles_of(sorted, statistics);
  if (execution_.wants_row_counts) {
    events_.timed(Stage::count, stream_, [&] { fetch_row_pairs(sorted, 1, memory_, stream_); });
    statistics = statistics_of(sorted, statistics.a, statistics.b);
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
  DeviceOperands operands;
  const auto arrange = [&, layout = execution_.operand_layout] {
    operands = arrange_operands(std::move(sorted), layout, memory_, stream_);
  };
  if (must_arrange(sorted, execution_.operand_layout)) {
    events_.timed(Stage::build, stream_, arrange);
  } else {
    arrange();
  }
  operands.tiles = std::move(tiles);
  operands.max_row_blocks = static_cast<std::uint32_t>(statistics.row_pairs.max_row_blocks);
  if (operands.b_by_columns) {  // its columns are known once it is arranged
    statistics.b_columns = operands.b.num_rows;
    decide(statistics);
  }
  return operands;
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
TileMaps Pipeline::count_tiles_of(SortedOperands& sorted, plan::Statistics& statistics) {
  TileMaps tiles;
  const kernels::TileGrid grid = plan::tile_grid(statistics);
  if (plan::tile_map_bytes(grid) > plan::kTileMapsBesideValues) sorted.ahead = {};
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

ParsedOperands Pipeline::read(const DeviceArrays& arrays, const MatrixHeader& header) {
  return read_arrays(arrays, key_bits_of(header.blocks_per_side()), memory_, events_);
}

Pipeline::Arranged Pipeline::arrange_pattern(ParsedOperands parsed, const Source& a, const Source& b) {
  const std::uint32_t m = a.header().m;
  const std::uint64_t most_blocks = std::max(parsed.a.keys.size(), parsed.b.keys.size());
  Arranged arranged;
  arranged.largest = std::max(parsed.a.max_element, parsed.b.max_element);
  arranged.ones = {memory_, most_blocks * m * m, "elements"};  // no sum of theirs is zero
  const DeviceBuffer<std::uint16_t>& ones = arranged.ones;
  check(cudaMemsetAsync(ones.data(), 1, ones.size() * sizeof(std::uint16_t), stream_.get()), "set elements");
  for (ParsedMatrix* matrix : {&parsed.a, &parsed.b}) {
    matrix->values = DeviceBuffer<std::uint16_t>::borrow(ones.data(), matrix->keys.size() * m * m);
    matrix->max_element = std::numeric_limits<std::uint16_t>::max();
    matrix->has_zeros = false;
  }
  SortedOperands sorted = sort_and_count(std::move(parsed), a, b);
  sorted.keeps_order = true;
  arranged.statistics = statistics_of(sorted, a.header(), b.header());
  arranged.operands = decide_and_arrange(std::move(sorted), arranged.statistics);
  events_.stop();
  return arranged;
}

std::unique_ptr<Multiplier> Pipeline::multiplier_of(const DeviceOperands& operands, unsigned long long* num_saturated) {
  return make_multiplier({.operands = operands,
                          .execution = execution_,
                          .memory = memory_,
                          .max_c_blocks = most_c_blocks(execution_.panels),
                          .num_saturated = num_saturated,
                          .stream = stream_,
                          .events = events_,
                          .run = run_});
}

/// Whether a multiplier is to write the arrays of a result itself: if these would not have much more room than C blocks
/// are expected. C blocks at most, over all panels.
std::optional<std::uint64_t> Pipeline::direct_c_blocks(const Multiplier& multiplier,
                                                       const plan::Statistics& statistics) const {
  constexpr std::uint64_t kLittleBytes = 64u << 20;
  if (run_.arrays == nullptr || !multiplier.writes_arrays()) return std::nullopt;
  std::uint64_t most = 0;
  for (const plan::Panel& panel : execution_.panels) most += panel.max_c_blocks();
  most = std::min(most, static_cast<std::uint64_t>(statistics.num_pairs));
  if (most * output_record_bytes(statistics.m()) <= kLittleBytes) return most;
  constexpr double kRoom = 2;  // copying what is used takes a third of what taking records apart does
  const bool is_full = static_cast<double>(most) <= kRoom * expected_c_blocks(statistics);
  return is_full ? std::optional(most) : std::nullopt;
}

/// Appends the panels that are packed in turns; a single one without memory if none is.
std::unique_ptr<PanelTaker> Pipeline::make_taker(const Multiplier& multiplier, const plan::Statistics& statistics,
                                                 unsigned long long* num_saturated, PanelOutput& output,
                                                 std::deque<PackedPanel>& packed) {
  const std::uint32_t m = statistics.m();
  const std::vector<plan::Panel>& panels = execution_.panels;
  std::unique_ptr<ArrayCollector> collector;
  if (run_.arrays != nullptr) {
    collector =
        std::make_unique<ArrayCollector>(*run_.arrays, memory_, events_, num_saturated, sure_blocks(statistics));
    const auto most = direct_c_blocks(multiplier, statistics);
    if (most && collector->reserve(*most, panels.size())) {
      packed.emplace_back(memory_, 0, m);
      return collector;
    }
  }
  const std::uint64_t max_c_blocks = most_c_blocks(panels);
  // Two panels, or more smaller ones in their memory.
  const std::uint64_t num_that_fit = 2 * std::max(execution_.max_c_blocks, max_c_blocks) / max_c_blocks;
  const std::uint64_t num_packed = std::min({num_that_fit, output.max_buffers(), std::uint64_t{panels.size()}});
  for (std::uint64_t x = 0; x < num_packed; ++x) packed.emplace_back(memory_, max_c_blocks, m);
  if (collector != nullptr) return collector;
  return std::make_unique<Downloader>(output, m, ring_, num_saturated, events_, run_);
}

void Pipeline::run_panels(const DeviceOperands& operands, const plan::Statistics& statistics, PanelOutput& output,
                          ProductStats& stats) {
  const std::vector<plan::Panel>& panels = execution_.panels;
  const bool can_saturate = may_saturate(statistics);
  std::deque<PackedPanel> packed;
  const DeviceBuffer<unsigned long long> num_saturated(memory_, can_saturate ? 1 : 0, "count");
  if (can_saturate) check(cudaMemsetAsync(num_saturated.data(), 0, sizeof(unsigned long long), stream_.get()), "clear");
  const std::unique_ptr<Multiplier> multiplier = multiplier_of(operands, num_saturated.data());
  const std::unique_ptr<PanelTaker> taker = make_taker(*multiplier, statistics, num_saturated.data(), output, packed);
  const SettledAtEnd settled(stream_);  // kernels write pinned words of the panels and of the multiplier
  for (std::size_t x = 0; x < panels.size(); ++x) {
    run_.check_cancelled();
    output.check();
    PackedPanel& packing = packed[x % packed.size()];
    taker->wait_until_free(packing);
    events_.begin_panel(stream_, {.pairs = panels[x].num_pairs, .panel = x});
    multiplier->multiply(panels[x], packing.target);
    packing.number = x;
    packing.ready.record(stream_);
    taker->push(packing);
    if (run_.on_progress && !output.reports_progress()) {
      run_.on_progress(Stage::multiply, panels[x].row_begin + std::uint64_t{panels[x].num_rows}, operands.a.num_rows);
    }
  }
  stats.num_blocks = taker->finish();
  if (can_saturate) stats.num_saturated = fetch(num_saturated.data(), stream_);
}

ProductStats multiply(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                      const plan::Decide& decide, const DeviceRun& run) {
  return run.more_devices.empty() ? multiply_alone(a, b, sink, execution, decide, run)
                                  : multiply_on_all(a, b, sink, execution, decide, run);
}

}  // namespace spmm::cuda
