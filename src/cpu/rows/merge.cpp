#include "cpu/rows/merge.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/run/stage_progress.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/operands/tile_operand.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/rows/merger.hpp"
#include "cpu/rows/tile_merger.hpp"
#include "cpu/rows/units.hpp"
#include "cpu/simd/kernels.hpp"
#include "plan/panels/tiles.hpp"

namespace spmm::cpu {
namespace {

/// What both ways of merging rows share: units of work, and where they go.
struct RowWork {
  const Prepared& product;
  const plan::Execution& execution;
  Isa isa;
  Sink& sink;
  const Run& run;
};

template <class Merger>
void merge_unit(Merger& merger, const Prepared& product, const RowUnit& unit, const Run& run, RowUnitOutput& out) {
  const std::span<const std::uint64_t> row_pairs(product.row_pairs.data(), product.row_pairs.size());
  // A C block has at most a pair for each block of its row of A.
  const auto may_saturate = [&, sure = product.sure_pairs()](std::uint32_t row) {
    const std::uint64_t blocks = product.a.row_ptr[row + 1] - product.a.row_ptr[row];
    return std::min(blocks, row_pairs[row]) > sure;
  };
  for (std::uint32_t row = unit.row_begin; row < unit.row_end; ++row) {
    run.check_cancelled();
    out.set_may_saturate(may_saturate(row));
    if (row_pairs[row] != 0) merger.merge(row, row_pairs[row], unit.col_begin, unit.col_end, out);
  }
}

/// One worker: units from `maker` until none is left.
template <class Merger, class Rows>
void work(const Rows& rows, const RowWork& shared, RowUnitMaker& maker, OutputQueue& queue, Progress& progress) {
  const Prepared& product = shared.product;
  Merger merger(rows, shared.run);
  OutputQueue::Job job;
  RowUnit unit;
  const std::uint64_t record = output_record_bytes(product.shape.m);
  const auto claim = [&] { return maker.next(unit, queue.useful_bytes() / record); };
  while (queue.start(job, claim)) {
    const bool ends_rows = unit.col_end == product.blocks_per_side;
    {
      auto piece = shared.run.clock.worker_scope(Stage::multiply, {.panel = job.number});
      RowUnitOutput out(queue, job, record);
      merge_unit(merger, product, unit, shared.run, out);
      // A row in pieces counts with its last one.
      const auto* const pairs = product.row_pairs.data();
      if (ends_rows)
        piece.work().pairs = std::accumulate(pairs + unit.row_begin, pairs + unit.row_end, std::uint64_t{0});
      piece.work().bytes = job.total_bytes();
    }
    queue.finish(job);
    if (ends_rows) progress.add(unit.row_end - unit.row_begin);
  }
}

struct BufferShape {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< of each
};

/// The planned buffers, or more and smaller ones in the same memory where each holds a row of any size and the result
/// is small: they begin next to each other, so that fewer fresh pages are cleared. P2, multiply: 22 MB of pages and 6.0
/// ms, then 16 MB at most and 5.5 ms. Large files are written faster from large buffers.
BufferShape cut_buffers(const Prepared& product, const plan::Execution& planned, std::uint64_t record, Sink& sink) {
  constexpr std::uint64_t kSmallResult = 512u << 20;
  std::uint64_t most_records = 0;
  std::uint64_t all_records = 0;
  for (const std::uint64_t pairs : product.row_pairs) {
    const std::uint64_t of_row = std::min<std::uint64_t>(pairs, product.blocks_per_side);
    most_records = std::max(most_records, of_row);
    all_records += of_row;
  }
  sink.expect(product.shape.m, all_records);
  const std::uint64_t pieces = planned.panel_bytes / std::max(most_records * record, OutputQueue::kCachedBytes);
  if (pieces < 2 || all_records * record > kSmallResult) {
    return {.count = planned.num_buffers, .bytes = planned.panel_bytes};
  }
  return {.count = planned.num_buffers * pieces, .bytes = planned.panel_bytes / pieces / record * record};
}

/// Runs a Merger per thread over all rows.
template <class Merger, class Rows>
ProductStats merge_rows(const Rows& rows, const RowWork& shared) {
  const Prepared& product = shared.product;
  const Run& run = shared.run;
  const std::uint64_t record = output_record_bytes(product.shape.m);
  std::optional<RowUnitMaker> maker;
  BufferShape buffers;
  {
    const auto timing = run.clock.scope(Stage::plan);
    buffers = cut_buffers(product, shared.execution, record, shared.sink);
    maker.emplace(std::span(product.row_pairs.data(), product.row_pairs.size()), product.blocks_per_side,
                  buffers.bytes / record, shared.execution.num_threads,
                  std::span(product.b.cols.data(), product.b.cols.size()));
  }
  const auto around = run.clock.frame(Stage::multiply);
  OutputQueue queue(shared.sink, buffers.count, buffers.bytes, record, run);
  Progress progress(run, Stage::multiply, product.a.num_rows());
  queue.run([&] { work<Merger>(rows, shared, *maker, queue, progress); });
  return {.num_blocks = queue.num_records(),
          .pairs = product.num_pairs,
          .num_panels = queue.num_appended(),
          .num_saturated = queue.num_saturated(),
          .device = std::string(isa_name(shared.isa))};
}

ProductStats merge_in_tiles(Prepared& product, const RowWork& shared) {
  const PackedOperand& b = product.b;
  const TileKernel kernel = choose_tile_kernel(shared.isa, product.shape.m, std::max(product.a.seen_bits, b.seen_bits));
  TileOperand tiles;
  {
    const auto timing = shared.run.clock.scope(Stage::build);
    tiles = make_tiles(product.b, product.shape.m, kernel.paired, std::move(product.b_tiles), shared.run);
    product.b.values = {};
    product.b.cols = {};
    product.b_tiles = {};
  }
  const TileProduct rows{.a = product.a,
                         .b = tiles,
                         .kernel = kernel,
                         .m = product.shape.m,
                         .b_bound = product.b.seen_bits,
                         .blocks_per_side = product.blocks_per_side};
  return merge_rows<TileMerger>(rows, shared);
}

}  // namespace

ProductStats multiply_row_merge(Prepared& product, Isa isa, Sink& sink, const plan::Execution& execution,
                                const Run& run) {
  const RowWork shared{.product = product, .execution = execution, .isa = isa, .sink = sink, .run = run};
  const PackedShape& shape = product.shape;
  if (plan::sums_in_tiles(shape.m)) return merge_in_tiles(product, shared);
  RowArithmetic arithmetic;
  {
    const auto timing = run.clock.scope(Stage::build);
    arithmetic = choose_row_arithmetic(product.a, product.b, shape, run);
  }
  const RowProduct rows{.a = product.a,
                        .b = product.b,
                        .operands = {.a = product.a.values.data(),
                                     .b = product.b.values.data(),
                                     .a_row_sums = arithmetic.a_row_sums.data(),
                                     .shape = shape,
                                     .arithmetic = arithmetic.common},
                        .arithmetic = arithmetic,
                        .narrow_kernel = choose_kernel(isa, shape, {.wide = false}),
                        .wide_kernel = choose_kernel(isa, shape, {.wide = true}),
                        .accumulator = choose_accumulator(isa, shape),
                        .rank = choose_rank_keys(isa),
                        .blocks_per_side = product.blocks_per_side};
  return merge_rows<RowMerger>(rows, shared);
}

}  // namespace spmm::cpu
