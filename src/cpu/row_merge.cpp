#include "cpu/row_merge.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/kernels.hpp"
#include "cpu/operand.hpp"
#include "cpu/output_queue.hpp"
#include "cpu/progress.hpp"
#include "cpu/read_records.hpp"
#include "cpu/row_merger.hpp"
#include "cpu/units.hpp"

namespace spmm::cpu {
namespace {

constexpr Isa kWidestIsa = Isa::avx512_vnni;  // has the largest packed shapes

/// Both operands, ready to be multiplied.
struct Ready {
  Operand a;
  Operand b;
  AlignedArray<std::uint32_t> a_row_sums;  // wide arithmetic only
  AlignedArray<std::uint64_t> row_pairs;   // [a.num_rows()]
  Arithmetic arithmetic;
};

Ready prepare(const Source& a, const Source& b, const PackedShape& shape, unsigned num_threads,
              const RunContext& context) {
  Progress progress(
      context, Stage::read,
      a.header().num_blocks * input_record_bytes(shape.m) + b.header().num_blocks * input_record_bytes(shape.m));
  Ready out;
  AlignedArray<std::byte> raw_a = read_records(a, num_threads, progress, context);
  AlignedArray<std::byte> raw_b = read_records(b, num_threads, progress, context);
  out.a = build_operand(a, std::move(raw_a), Side::a, shape, num_threads, context);
  out.b = build_operand(b, std::move(raw_b), Side::b, shape, num_threads, context);
  {
    const auto timing = context.clock.scope(Stage::build);
    out.arithmetic = choose_arithmetic(shape, out.a.bound, out.b.bound);
    if (out.arithmetic.wide) out.a_row_sums = prepare_wide(out.a, out.b, shape, num_threads);
  }
  const auto timing = context.clock.scope(Stage::count);
  out.row_pairs = link_rows(out.a, out.b, a.header().blocks_per_side(), num_threads);
  return out;
}

/// One worker: units from `maker` until none is left.
void work(const RowProduct& product, const Ready& ready, UnitMaker& maker, OutputQueue& queue, Progress& progress,
          const RunContext& context) {
  const std::uint64_t record = output_record_bytes(product.operands.shape.m);
  RowMerger merger(product);
  OutputQueue::Job job;
  Unit unit;
  while (queue.start(job, [&] { return maker.next(unit); })) {
    UnitOutput out(queue, job, record);
    for (std::uint32_t row = unit.row_begin; row < unit.row_end; ++row) {
      context.check_cancelled();
      if (ready.row_pairs[row] == 0) continue;
      merger.merge(row, ready.row_pairs[row], unit.col_begin, unit.col_end, out);
    }
    queue.finish(job);
    if (unit.col_end == product.blocks_per_side) progress.add(unit.row_end - unit.row_begin);
  }
}

}  // namespace

ProductStats multiply_row_merge(const Source& a, const Source& b, Sink& sink, const Plan& plan,
                                const RunContext& context) {
  const Isa isa = choose_isa();
  const std::uint32_t m = a.header().m;
  const std::uint32_t nb = a.header().blocks_per_side();
  const PackedShape shape = packed_shape(isa, m);
  const unsigned num_threads = std::max(1u, plan.num_threads);
  const Ready ready = prepare(a, b, shape, num_threads, context);

  const std::uint64_t record = output_record_bytes(m);
  const std::uint64_t buffer_bytes = std::max(plan.panel_bytes / record, std::uint64_t{1}) * record;
  std::optional<UnitMaker> maker;
  {
    const auto timing = context.clock.scope(Stage::plan);
    maker.emplace(std::span(ready.row_pairs.data(), ready.row_pairs.size()), nb, buffer_bytes / record, num_threads);
  }
  const auto timing = context.clock.scope(Stage::multiply);
  const RowProduct product{.a = ready.a,
                           .b = ready.b,
                           .operands = {.a = ready.a.values.data(),
                                        .b = ready.b.values.data(),
                                        .a_row_sums = ready.a_row_sums.data(),
                                        .shape = shape,
                                        .arithmetic = ready.arithmetic},
                           .kernel = choose_kernel(isa, shape, ready.arithmetic),
                           .blocks_per_side = nb};
  OutputQueue queue(sink, std::max<std::uint64_t>(1, plan.num_buffers), buffer_bytes, record, context);
  Progress progress(context, Stage::multiply, ready.a.num_rows());
  run_workers(num_threads, [&](unsigned) {
    try {
      work(product, ready, *maker, queue, progress, context);
    } catch (const Stopped&) {
      // Another worker has failed and reports why.
    } catch (...) {
      queue.fail();
      throw;
    }
  });
  return {.num_blocks = queue.num_records(),
          .pairs = maker->total_pairs(),
          .num_panels = queue.num_appended(),
          .device = std::string(isa_name(isa))};
}

std::uint64_t row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan) {
  const PackedShape shape = packed_shape(kWidestIsa, a.m);
  const std::uint64_t raw_a = a.num_blocks * input_record_bytes(a.m);
  const std::uint64_t raw_b = b.num_blocks * input_record_bytes(b.m);
  const std::uint64_t ready_a = operand_bytes(a, Side::a, shape);
  const std::uint64_t ready_b = operand_bytes(b, Side::b, shape);
  const std::uint64_t row_sums = a.num_blocks * sizeof(std::uint32_t) * shape.rows;
  const std::uint64_t building_a = raw_a + raw_b + build_bytes(a, Side::a, shape);
  const std::uint64_t building_b = ready_a + raw_b + build_bytes(b, Side::b, shape);
  const std::uint64_t multiplying = ready_a + ready_b + row_sums + link_bytes(a, b) +
                                    plan.num_buffers * plan.panel_bytes +
                                    plan.num_threads * RowMerger::bytes(a.blocks_per_side());
  return std::max({building_a, building_b, multiplying});
}

}  // namespace spmm::cpu
