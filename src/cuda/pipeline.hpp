// What one device does for a product: sort, count, have the exact decision made, then panel by panel multiply and
// compact, while earlier panels leave.
#pragma once

#include <algorithm>
#include <cstdint>
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
inline plan::Counts counts_of(SortedOperands& sorted, const MatrixHeader& a, const MatrixHeader& b) {
  plan::Counts s{.a = a,
                 .b = b,
                 .exact = true,
                 .num_pairs = static_cast<double>(sorted.num_pairs()),
                 .a_rows = sorted.a.index.num_rows,
                 .b_rows = sorted.b.index.num_rows,
                 .c_columns_end = sorted.c_columns,
                 .max_element = std::max(sorted.a.max_element, sorted.b.max_element),
                 .row_pairs = std::move(sorted.row_pairs)};
  std::uint64_t num_c_blocks = 0;
  for (std::size_t x = 0; x < s.row_pairs.num_runs(); ++x) {
    num_c_blocks += plan::run_bound(s.row_pairs, x, s.c_columns());
  }
  s.num_c_blocks = static_cast<double>(num_c_blocks);
  return s;
}

/// C blocks lie in the tiles that products reach.
inline void set_tiles(plan::Counts& counts, const TileMaps& tiles) {
  counts.tiles = tiles.counts;
  if (tiles.counts.rows.empty()) return;
  const auto all = plan::tile_panel_extent(tiles.grid, tiles.counts, {.num_rows = tiles.grid.num_rows});
  counts.num_c_blocks = std::min(counts.num_c_blocks, static_cast<double>(all.c_blocks));
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

  /// Puts the sort on the stream, and what goes along with it, if there is room for it in what the plan has counted for
  /// the build. Records may still be on their way.
  void queue_sort(const SortedOperands& parsed, const MatrixHeader& a, const MatrixHeader& b) {
    queued_ = CountedSort::queue(parsed, plan::operand_device_bytes(a, b, a.m).build_peak, memory_, events_);
  }

  /// From uploaded operands to the last panel taken. Pairs are those of the whole product, blocks and panels those of
  /// this device.
  ProductStats run(SortedOperands uploaded, const Source& a, const Source& b, PanelTaker& taker) {
    arrange(std::move(uploaded), a, b);
    ProductStats stats = run_panels(taker);
    drop_operands();
    return stats;
  }

  /// Sorts uploaded operands by row and counts their pairs; decides nothing.
  [[nodiscard]] SortedOperands sort_and_count(SortedOperands operands, const Source& a, const Source& b) {
    if (queued_ == nullptr) queue_sort(operands, a.header(), b.header());
    const bool is_sorted = queued_ != nullptr && queued_->take(operands);
    queued_.reset();
    if (!is_sorted) events_.timed(Stage::build, stream_, [&] { sort_rows(operands, a, b, memory_); });
    operands.a.keys = {};  // only B may be arranged by columns
    run_.check_cancelled();
    if (operands.row_pairs.num_rows == 0) events_.timed(Stage::count, stream_, [&] { count_pairs(operands, memory_); });
    return operands;
  }

  /// Sorts uploaded operands, counts what the exact decision wants to know, and brings them into the layout that it
  /// wants.
  void arrange(SortedOperands uploaded, const Source& a, const Source& b) {
    operands_ = sort_and_count(std::move(uploaded), a, b);
    if (run_.selection.upper_triangle) {
      events_.timed(Stage::count, stream_, [&] { cut_to_triangle(operands_, memory_); });
    }
    counts_ = counts_of(operands_, a.header(), b.header());
    decide();
    TileMaps tiles;
    if (execution_.wants_tile_counts) {
      events_.timed(Stage::count, stream_, [&] {
        tiles = count_tiles(plan::tile_grid(counts_), operands_.a.index, operands_.b.index, execution_.max_tile_stages,
                            memory_);
      });
      if (tiles.counts.counted) {  // else they are far too many
        set_tiles(counts_, tiles);
        decide();
      }
    }
    if (execution_.wants_row_counts) {
      events_.timed(Stage::count, stream_, [&] { fetch_row_pairs(operands_, operands_.a.index.num_rows, memory_); });
      counts_ = counts_of(operands_, a.header(), b.header());
      set_tiles(counts_, tiles);
      decide();
    }
    const plan::KernelRow& kernel = plan::row_of(execution_.kernel);
    if (kernel.expansion != plan::Expansion::tiles) tiles = {};
    operands_.tiles = std::move(tiles);
    // All kernels but row-spread expand, or weigh rows by their pairs.
    const bool wants_block_pairs = !kernel.spreads_rows || std::ranges::any_of(execution_.panels, &plan::Panel::expand);
    if (kernel.is_dense()) {  // reads every block once: pairs and order do not matter
      operands_.b_row_index = {};
      operands_.b_parts = {};
    }
    if (!kernel.is_dense() && wants_block_pairs) {
      events_.timed(Stage::count, stream_, [&] { count_block_pairs(operands_, memory_); });
    } else {
      operands_.pair_offsets = {};
    }
    events_.timed(Stage::build, stream_, [&] { arrange_operands(operands_, execution_.operand_layout, memory_); });
    if (operands_.b_by_columns) {  // its columns are known once it is arranged
      counts_.b_columns = operands_.b.index.num_rows;
      decide();
    }
  }

  /// Multiplies the operands as they have been arranged, panel by panel.
  ProductStats run_panels(PanelTaker& taker) {
    ProductStats stats{.pairs = counts_.row_pairs.offsets.back(), .device = context_.properties().name};
    const bool selects = !run_.selection.is_all();
    const bool can_saturate = !execution_.panels.empty() && may_saturate(counts_);
    num_saturated_ = counter(can_saturate);
    const DeviceBuffer<unsigned long long> num_dropped = counter(selects);
    taker.start(execution_, num_saturated_.data());
    const std::vector<plan::Panel>& panels = execution_.panels;
    if (!panels.empty()) {
      multiplier_ = make_multiplier({.operands = operands_,
                                     .execution = execution_,
                                     .memory = memory_,
                                     .num_saturated = num_saturated_.data(),
                                     .num_dropped = num_dropped.data(),
                                     .events = events_,
                                     .run = run_});
      make_buffers(taker, selects);
    }
    const SettledAtEnd settled(stream_);  // kernels write pinned words of the panels and of the multiplier
    for (std::size_t x = 0; x < panels.size(); ++x) {
      run_.check_cancelled();
      PackedPanel& packing = taker.panels[x % taker.panels.size()];
      taker.wait_until_free(packing);
      events_.begin_panel(stream_, {.pairs = panels[x].num_pairs, .panel = x});
      multiplier_->multiply(panels[x], packing.target);
      packing.number = panels[x].number;
      taker.push(packing);
    }
    stats.num_blocks = taker.finish();
    taker.panels.clear();
    if (can_saturate) stats.num_saturated = fetch(num_saturated_.data(), stream_);
    if (selects) stats.num_dropped = fetch(num_dropped.data(), stream_);
    stats.num_panels = panels.size();
    stats.peak_device_bytes = memory_.peak_bytes();
    return stats;
  }

  /// Gives back what only further panels would need.
  void drop_operands() {
    multiplier_.reset();
    operands_ = {};
  }

  /// What is arranged for the multiplier, which reads it.
  [[nodiscard]] SortedOperands& operands() { return operands_; }
  [[nodiscard]] Multiplier& multiplier() { return *multiplier_; }
  [[nodiscard]] const plan::Counts& counts() const { return counts_; }
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
  /// Chooses with what has been counted. Memory that the choice wants beyond what the product has reserved is taken at
  /// once; where other products hold it, the product makes do with its own. Only row-rank and tile-tensor ask for so
  /// much more than is expected of headers.
  void decide() {
    const auto timing = run_.clock.scope(Stage::plan);
    execution_ = plan::decide(counts_, limits_);
    if (!execution_.is_refused() && plan::row_of(execution_.kernel).may_outgrow && run_.memory != nullptr) {
      const std::uint64_t reserved = run_.memory->reserved().device;
      const std::uint64_t need = execution_.device_need_bytes;
      if (need > reserved && !run_.memory->grow_device(need - reserved)) {
        plan::Limits less = limits_;
        less.gpus.front().bytes = reserved;
        execution_ = plan::decide(counts_, less);
      }
    }
    plan::throw_if_refused(execution_);
  }

  /// A zero on the device, if it is wanted.
  DeviceBuffer<unsigned long long> counter(bool is_wanted) {
    DeviceBuffer<unsigned long long> zero(memory_, is_wanted ? 1 : 0, "count");
    if (is_wanted) check(cudaMemsetAsync(zero.data(), 0, sizeof(unsigned long long), stream_.get()), "clear");
    return zero;
  }

  /// Buffers for packed panels: two, or more smaller ones in their memory, of which a selection holds one before it
  /// drops anything. If the multiplier writes the result itself, they are empty.
  void make_buffers(PanelTaker& taker, bool selects) {
    if (multiplier_->writes_arrays() && taker.takes_directly(execution_, counts_)) {
      taker.panels.emplace_back(memory_, 0, counts_.m());
      return;
    }
    const std::uint64_t max_c_blocks = plan::most_c_blocks(execution_.panels);
    const std::uint64_t num_that_fit = 2 * std::max(execution_.max_c_blocks, max_c_blocks) / max_c_blocks;
    const std::uint64_t num_useful = run_.more_devices.empty() ? 2 : 16;  // devices wait for each other
    const std::uint64_t num =
        std::min({selects ? num_that_fit - 1 : num_that_fit, num_useful, std::uint64_t{execution_.panels.size()}});
    for (std::uint64_t x = 0; x < num; ++x) taker.panels.emplace_back(memory_, max_c_blocks, counts_.m());
  }

  plan::Choice execution_;
  const plan::Limits limits_;
  const DeviceRun& run_;
  DeviceContext& context_;
  Stream stream_;
  DeviceMemory memory_;
  StageEvents events_;
  plan::Counts counts_;
  SortedOperands operands_;
  DeviceBuffer<unsigned long long> num_saturated_;  // [1]; streams of takers write it, too
  std::unique_ptr<Multiplier> multiplier_;
  std::unique_ptr<CountedSort> queued_;  // last: may still write what the others own
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
