// What one device does for a product: sort, count, have the exact decision made, then panel by panel multiply and
// compact, while earlier panels leave.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "base/run/run.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/context.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/multipliers/multiplier.hpp"
#include "cuda/operands/counted_sort.hpp"
#include "cuda/operands/operands.hpp"
#include "cuda/output/panels.hpp"
#include "plan/choice.hpp"
#include "plan/need.hpp"
#include "plan/registry.hpp"
#include "plan/rule.hpp"

namespace spmm::cuda {

/// Whether some row of A has enough blocks to bring an element of C to kMaxVal: each is a sum over no more.
inline bool may_saturate(const plan::Counts& s) {
  const std::uint64_t sure_blocks = sure_terms(s.max_element, s.max_element) / s.m();
  return std::min<std::uint64_t>(s.row_pairs.max_row_blocks, s.b_rows) > sure_blocks;
}

/// Takes the pairs of rows over.
inline plan::Counts statistics_of(SortedOperands& sorted, const MatrixHeader& a, const MatrixHeader& b) {
  plan::Counts s{.a = a,
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
inline void set_tiles(plan::Counts& statistics, const TileMaps& tiles) {
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
inline bool wants_block_pairs(const plan::Choice& execution) {
  if (!plan::row_of(execution.kernel).spreads_rows) return true;
  return std::any_of(execution.panels.begin(), execution.panels.end(),
                     [](const plan::Panel& panel) { return panel.expand; });
}

/// One device and one product. Threads: one at a time, with the device current.
class Pipeline {
 public:
  /// Values: expected = the choice made from the headers. All references must outlive it.
  Pipeline(const DeviceUse& use, const plan::Choice& expected, const DeviceRun& run)
      : execution_(expected),
        limits_(expected.limits),
        run_(run),
        context_(*use.device),
        stream_(context_),
        memory_(stream_, expected.device_limit_bytes, use.memory,
                run.arrays != nullptr ? &run.arrays->call.allocator : nullptr),
        events_(stage_hooks(), stream_, is_timed(run)) {}

  /// Allocates, if there is room, for a sort that is put on the stream while records are still on their way.
  void prepare_sort(const SortedOperands& parsed, const MatrixHeader& a, const MatrixHeader& b) {
    queued_ = CountedSort::make(parsed, build_room(a, b), memory_);
  }
  /// Puts that sort, and what goes along with it, on the stream.
  void queue_sort(const SortedOperands& parsed) {
    if (queued_ != nullptr) queued_->queue(parsed, events_);
  }

  /// From uploaded operands to the last panel taken. Pairs are those of the whole product, blocks and panels those of
  /// this device.
  ProductStats run(SortedOperands operands, const Source& a, const Source& b, PanelTaker& taker) {
    ProductStats stats{.device = context_.properties().name};
    const plan::Counts statistics = arrange(operands, a, b);
    stats.pairs = statistics.row_pairs.offsets.back();
    run_panels(operands, statistics, taker, stats);
    stats.num_panels = execution_.panels.size();
    stats.peak_device_bytes = memory_.peak_bytes();
    return stats;
  }

  /// Sorts uploaded operands by row and counts their pairs; decides nothing.
  [[nodiscard]] SortedOperands sort_and_count(SortedOperands operands, const Source& a, const Source& b) {
    if (queued_ == nullptr) {
      queued_ = CountedSort::make(operands, build_room(a.header(), b.header()), memory_);
      queue_sort(operands);
    }
    if (queued_ == nullptr || !queued_->take(operands)) {
      queued_.reset();
      events_.timed(Stage::build, stream_, [&] { sort_rows(operands, a, b, memory_); });
    }
    queued_.reset();
    operands.a.keys = {};  // only B may be arranged by columns
    run_.check_cancelled();
    if (operands.row_pairs.num_rows == 0) events_.timed(Stage::count, stream_, [&] { count_pairs(operands, memory_); });
    return operands;
  }

  /// Brings uploaded operands into the layout that the exact decision wants; returns what has been counted.
  [[nodiscard]] plan::Counts arrange(SortedOperands& operands, const Source& a, const Source& b) {
    operands = sort_and_count(std::move(operands), a, b);
    if (run_.selection.upper_triangle)
      events_.timed(Stage::count, stream_, [&] { cut_to_triangle(operands, memory_); });
    plan::Counts statistics = statistics_of(operands, a.header(), b.header());
    decide(statistics);
    TileMaps tiles;
    if (execution_.wants_tile_counts) tiles = count_tiles_of(operands, statistics);
    if (execution_.wants_row_counts) {
      events_.timed(Stage::count, stream_, [&] { fetch_row_pairs(operands, operands.a.index.num_rows, memory_); });
      statistics = statistics_of(operands, a.header(), b.header());
      set_tiles(statistics, tiles);
      decide(statistics);
    }
    if (plan::row_of(execution_.kernel).expansion == plan::Expansion::tiles) operands.tiles = std::move(tiles);
    tiles = {};
    if (plan::row_of(execution_.kernel).is_dense()) {  // reads every block once: pairs and order do not matter
      operands.b_row_index = {};
      operands.b_parts = {};
      operands.pair_offsets = {};
    } else if (wants_block_pairs(execution_)) {
      events_.timed(Stage::count, stream_, [&] { count_block_pairs(operands, memory_); });
    }
    events_.timed(Stage::build, stream_, [&] { arrange_operands(operands, execution_.operand_layout, memory_); });
    if (operands.b_by_columns) {  // its columns are known once it is arranged
      statistics.b_columns = operands.b.index.num_rows;
      decide(statistics);
    }
    return statistics;
  }

  /// The multiplier of what has been decided. It must not outlive the operands, nor the pipeline.
  [[nodiscard]] std::unique_ptr<Multiplier> multiplier_of(const SortedOperands& operands,
                                                          unsigned long long* num_saturated,
                                                          unsigned long long* num_dropped = nullptr) {
    return make_multiplier({.operands = operands,
                            .execution = execution_,
                            .memory = memory_,
                            .num_saturated = num_saturated,
                            .num_dropped = num_dropped,
                            .events = events_,
                            .run = run_});
  }

  [[nodiscard]] DeviceMemory& memory() { return memory_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] StageEvents& events() { return events_; }

  /// What ran: the exact decision, with the panels of this device.
  [[nodiscard]] const plan::Choice& execution() const { return execution_; }

 private:
  /// Not if times are not wanted, or of a plan, whose work may be captured in a graph.
  static bool is_timed(const DeviceRun& run) {
    if (run.arrays == nullptr) return true;
    return !run.arrays->is_pattern && (run.arrays->is_timed || run.clock.trace() != nullptr);
  }
  /// What the plan has counted for the build and is not in use.
  [[nodiscard]] std::uint64_t build_room(const MatrixHeader& a, const MatrixHeader& b) const {
    const std::uint64_t most = plan::operand_device_bytes(a, b, a.m).build_peak;
    return most - std::min(most, memory_.used_bytes());
  }

  /// Decides with more statistics than before. Another kernel is chosen only if the memory for it is free: the product
  /// waits for none. Returns whether the decision stands.
  bool decide_anew(const plan::Counts& more) {
    plan::Choice before = std::move(execution_);
    decide(more);
    if (execution_.kernel == before.kernel || execution_.device_need_bytes <= memory_.most_bytes()) return true;
    execution_ = std::move(before);  // other products hold what it would need
    return false;
  }

  /// Counts the tiles that an exact decision wants to know, and decides again unless they are far too many.
  TileMaps count_tiles_of(const SortedOperands& sorted, plan::Counts& statistics) {
    TileMaps tiles;
    const kernels::TileGrid grid = plan::tile_grid(statistics);
    events_.timed(Stage::count, stream_, [&] {
      tiles = count_tiles(grid, sorted.a.index, sorted.b.index, execution_.max_tile_stages, memory_);
    });
    if (!tiles.counts.counted) return tiles;  // the decision stands
    plan::Counts with_tiles = statistics;
    set_tiles(with_tiles, tiles);
    if (!decide_anew(with_tiles)) return {};
    statistics = std::move(with_tiles);
    return tiles;
  }

  /// Chooses with what has been counted. Memory that the choice wants beyond what the product has reserved is taken at
  /// once; where other products hold it, the product makes do with its own. Only row-rank asks for so much more than is
  /// expected of headers.
  void decide(const plan::Counts& statistics) {
    const auto timing = run_.clock.scope(Stage::plan);
    execution_ = plan::decide(statistics, limits_);
    if (!execution_.is_refused() && plan::row_of(execution_.kernel).may_outgrow && run_.memory != nullptr) {
      const std::uint64_t reserved = run_.memory->reserved().device;
      const std::uint64_t need = execution_.device_need_bytes;
      if (need > reserved && !run_.memory->grow_device(need - reserved)) {
        plan::Limits less = limits_;
        less.gpus.front().bytes = reserved;
        execution_ = plan::decide(statistics, less);
      }
    }
    plan::throw_if_refused(execution_);
  }

  void run_panels(const SortedOperands& operands, const plan::Counts& statistics, PanelTaker& taker,
                  ProductStats& stats) {
    const bool selects = !run_.selection.is_all();
    const bool can_saturate = !execution_.panels.empty() && may_saturate(statistics);
    std::deque<PackedPanel>& packed = taker.panels;
    num_saturated_ = {memory_, can_saturate ? 1u : 0u, "count"};
    if (can_saturate) {
      check(cudaMemsetAsync(num_saturated_.data(), 0, sizeof(unsigned long long), stream_.get()), "clear");
    }
    const DeviceBuffer<unsigned long long> num_dropped(memory_, selects ? 1 : 0, "count");
    if (selects) check(cudaMemsetAsync(num_dropped.data(), 0, sizeof(unsigned long long), stream_.get()), "clear");
    taker.start(execution_, num_saturated_.data());
    const std::vector<plan::Panel>& panels = execution_.panels;
    if (panels.empty()) {
      stats.num_blocks = taker.finish();
      return;
    }
    const std::unique_ptr<Multiplier> multiplier = multiplier_of(operands, num_saturated_.data(), num_dropped.data());
    if (multiplier->writes_arrays() && taker.takes_directly(execution_, statistics)) {
      packed.emplace_back(memory_, 0, statistics.m());
    } else {  // two panels, or more smaller ones in their memory, of which a selection holds one before it drops
              // anything
      const std::uint64_t max_c_blocks = plan::most_c_blocks(panels);
      const std::uint64_t num_that_fit = 2 * std::max(execution_.max_c_blocks, max_c_blocks) / max_c_blocks;
      const std::uint64_t num_packed =
          std::min({selects ? num_that_fit - 1 : num_that_fit, taker.max_buffers(), std::uint64_t{panels.size()}});
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
      taker.push(packing);
    }
    stats.num_blocks = taker.finish();
    packed.clear();
    if (can_saturate) stats.num_saturated = fetch(num_saturated_.data(), stream_);
    if (selects) stats.num_dropped = fetch(num_dropped.data(), stream_);
  }

  plan::Choice execution_;
  const plan::Limits limits_;
  const DeviceRun& run_;
  DeviceContext& context_;
  Stream stream_;
  DeviceMemory memory_;
  StageEvents events_;
  DeviceBuffer<unsigned long long> num_saturated_;  // [1]; streams of takers write it, too
  std::unique_ptr<CountedSort> queued_;             // last: may still write what the others own
};

using Pipelines = std::vector<OnDevice<Pipeline>>;

/// Reads both matrices once with the threads of the run through the pinned slots of the first pipeline, and parses them
/// on the device of each; then each pipeline sorts them. A and B travel on streams of their own, overlapped with
/// reading, with each other and with those of other devices.
/// Shapes: operands for each pipeline.
/// Stream: returns, or throws, when all streams are done with the buffers; they belong to memory().stream().
/// Errors: FormatError (index out of range), OutOfMemory, Interrupted, what the sources throw; with several devices,
/// those of one name it.
std::vector<SortedOperands> upload(const Source& a, const Source& b, const Pipelines& pipelines, const Run& run);

}  // namespace spmm::cuda
