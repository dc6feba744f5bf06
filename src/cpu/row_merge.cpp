#include "cpu/row_merge.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpu/kernels.hpp"
#include "cpu/operand.hpp"
#include "cpu/output_queue.hpp"
#include "cpu/result_ranges.hpp"
#include "cpu/row_merger.hpp"
#include "cpu/stage_progress.hpp"
#include "cpu/units.hpp"

namespace spmm::cpu {
namespace {

/// One worker: units from `maker` until none is left.
void work(const RowProduct& product, const AlignedArray<std::uint64_t>& row_pairs, UnitMaker& maker, OutputQueue& queue,
          Progress& progress, const Run& run) {
  RowMerger merger(product, run);
  OutputQueue::Job job;
  Unit unit;
  const auto claim = [&] {
    if (!maker.next(unit)) return false;
    job.range = unit.range;
    return true;
  };
  while (queue.start(job, claim)) {
    UnitOutput out(queue, job, output_record_bytes(product.operands.shape.m));
    for (std::uint32_t row = unit.row_begin; row < unit.row_end; ++row) {
      run.check_cancelled();
      if (row_pairs[row] == 0) continue;
      merger.merge(row, row_pairs[row], unit.col_begin, unit.col_end, out);
    }
    queue.finish(job);
    if (unit.col_end == product.blocks_per_side) progress.add(unit.row_end - unit.row_begin);
  }
}

}  // namespace

ProductStats multiply_row_merge(Prepared& product, Isa isa, Sink& sink, const plan::Execution& execution,
                                const Run& run) {
  const PackedShape& shape = product.shape;
  const Arithmetic arithmetic = choose_arithmetic(shape, product.a.bound, product.b.bound);
  AlignedArray<std::uint32_t> a_row_sums;  // wide arithmetic only
  if (arithmetic.wide) {
    const auto timing = run.clock.scope(Stage::build);
    a_row_sums = prepare_wide(product.a, product.b, shape, run);
  }
  const std::uint64_t record = output_record_bytes(shape.m);
  std::vector<std::uint32_t> borders;
  std::optional<UnitMaker> maker;
  {
    const auto timing = run.clock.scope(Stage::plan);
    borders = cut_ranges(product, sink);
    maker.emplace(std::span(product.row_pairs.data(), product.row_pairs.size()), borders, product.blocks_per_side,
                  execution.panel_bytes / record, execution.num_threads);
  }
  const auto timing = run.clock.scope(Stage::multiply);
  const RowProduct rows{.a = product.a,
                        .b = product.b,
                        .operands = {.a = product.a.values.data(),
                                     .b = product.b.values.data(),
                                     .a_row_sums = a_row_sums.data(),
                                     .shape = shape,
                                     .arithmetic = arithmetic},
                        .kernel = choose_kernel(isa, shape, arithmetic),
                        .blocks_per_side = product.blocks_per_side};
  OutputQueue queue(sink, execution.num_buffers, execution.panel_bytes, record, run);
  Progress progress(run, Stage::multiply, product.a.num_rows());
  queue.run([&] { work(rows, product.row_pairs, *maker, queue, progress, run); });
  return {.num_blocks = queue.num_records(),
          .pairs = product.num_pairs,
          .num_panels = queue.num_appended(),
          .device = std::string(isa_name(isa))};
}

}  // namespace spmm::cpu
