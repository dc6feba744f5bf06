#include "cpu/rows/row_merge.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "base/records/errors.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/operands/tile_operand.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/rows/merger.hpp"
#include "cpu/rows/range.hpp"
#include "cpu/rows/tile_merger.hpp"
#include "cpu/simd/kernels.hpp"
#include "cpu/simd/layout.hpp"

namespace spmm::cpu {
namespace {

struct BufferShape {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< of each
};

/// The planned buffers, or more and smaller ones in the same memory where each holds a row of any size and the result
/// is small: they begin next to each other, so that fewer fresh pages are cleared. P2, multiply: 22 MB of pages and 6.0
/// ms, then 16 MB at most and 5.5 ms. Large files are written faster from large buffers.
BufferShape cut_buffers(const Prepared& product, const plan::Choice& planned, std::uint64_t record, Output& output,
                        const Selection& selection) {
  constexpr std::uint64_t kSmallResult = 512u << 20;
  std::uint64_t most_records = 0;
  std::uint64_t all_records = 0;
  std::uint64_t all_kept = 0;
  for (const std::uint64_t pairs : product.row_pairs) {
    const std::uint64_t of_row = std::min<std::uint64_t>(pairs, product.blocks_per_side);
    most_records = std::max(most_records, of_row);
    all_records += of_row;
    all_kept += product.most_c_blocks(pairs, selection);
  }
  output.expect(product.shape.m, selection.at_least <= 1 ? all_kept : 0);
  const std::uint64_t pieces = planned.panel_bytes / std::max(most_records * record, OutputQueue::kCachedBytes);
  if (pieces < 2 || all_records * record > kSmallResult) {
    return {.count = planned.num_buffers, .bytes = planned.panel_bytes};
  }
  return {.count = planned.num_buffers * pieces, .bytes = planned.panel_bytes / pieces / record * record};
}

/// What a range may hold if it should fill `useful_records` of a buffer of `buffer_records`.
RangeLimits limits_of(const Prepared& product, unsigned num_threads, std::uint64_t buffer_records,
                      std::uint64_t useful_records) {
  constexpr std::uint64_t kRangesPerThread = 32;      // the last ones level out what the others differ
  constexpr std::uint64_t kMinPairs = 1u << 13;       // far more work than handing out a range
  constexpr std::uint64_t kMinLargePairs = 1u << 11;  // the same where blocks are large
  constexpr std::uint64_t kMaxPairs = 1u << 22;       // some 10 ms, so that output flows early
  // Parts of rows fit a buffer. Large blocks: the part of it that stays in the cache. R-MAT, m = 16, 16 threads: 1.09 s
  // instead of 1.99 s.
  const bool are_large = buffer_records <= kMinPairs;
  return {.pairs = std::clamp(product.num_pairs / (num_threads * kRangesPerThread), kMinPairs, kMaxPairs),
          .blocks = useful_records,
          .part_blocks = are_large ? std::max<std::uint64_t>(1, useful_records) : buffer_records,
          .least_part_pairs = are_large ? kMinLargePairs : kMinPairs};
}

/// Runs a Merger on each thread over ranges of the product until none is left.
template <class Merger, class Rows>
ProductStats merge_rows(const Rows& rows, const Prepared& product, Isa isa, Output& output, const plan::Choice& choice,
                        const Run& run) {
  const std::uint64_t record = output_record_bytes(product.shape.m);
  const std::span<const std::uint64_t> row_pairs(product.row_pairs.data(), product.row_pairs.size());
  const bool is_triangle = run.selection.upper_triangle;
  const std::span<const std::uint32_t> rows_of_a(product.a.rows.data(), product.a.rows.size());
  RangeCutter cutter({.pairs = row_pairs,
                      .num_columns = product.blocks_per_side,
                      .b_columns = {product.b.cols.data(), product.b.cols.size()},
                      .first_columns = is_triangle ? rows_of_a : std::span<const std::uint32_t>(),
                      .keeps_rows_whole = run.selection.keep != 0});
  BufferShape buffers;
  {
    const auto timing = run.clock.scope(Stage::plan);
    buffers = cut_buffers(product, choice, record, output, run.selection);
  }
  const auto around = run.clock.frame(Stage::multiply);
  OutputQueue queue(output, buffers.count, buffers.bytes, record, run);
  Progress progress(run, Stage::multiply, product.a.num_rows());
  queue.run([&](RecordWriter& out) {
    Merger merger(rows, run);
    out.set_selection(run.selection, product.shape.m);
    Range range;
    const auto claim = [&] {
      const std::uint64_t useful_records = queue.useful_bytes() / record;
      return cutter.next(range, limits_of(product, choice.num_threads, buffers.bytes / record, useful_records));
    };
    while (out.start(claim)) {
      const bool ends_rows = range.column_end == product.blocks_per_side;
      {
        auto piece = run.clock.worker_scope(Stage::multiply, {.panel = out.number()});
        for (std::uint32_t row = range.row_begin; row < range.row_end; ++row) {
          run.check_cancelled();
          if (row_pairs[row] == 0) continue;
          // A C block has at most a pair for each block of its row of A.
          const std::uint64_t blocks = product.a.row_ptr[row + 1] - product.a.row_ptr[row];
          out.set_may_saturate(std::min(blocks, row_pairs[row]) > product.sure_pairs());
          const std::uint32_t first_column = std::max(range.column_begin, is_triangle ? product.a.rows[row] : 0);
          if (first_column < range.column_end) merger.merge(row, row_pairs[row], first_column, range.column_end, out);
          out.end_row();
          if (ends_rows) piece.work().pairs += row_pairs[row];  // a row in pieces counts with its last one
        }
        piece.work().bytes = out.total_bytes();
      }
      out.finish();
      if (ends_rows) progress.add(range.row_end - range.row_begin);
    }
  });
  check_num_output_blocks(queue.num_records());  // sinks that keep a header ask earlier
  return {.num_blocks = queue.num_records(),
          .pairs = product.num_pairs,
          .num_panels = queue.num_appended(),
          .num_saturated = queue.num_saturated(),
          .num_dropped = queue.num_dropped(),
          .device = std::string(isa_name(isa))};
}

}  // namespace

ProductStats multiply_row_merge(Prepared& product, Isa isa, Output& output, const plan::Choice& choice,
                                const Run& run) {
  const PackedShape& shape = product.shape;
  if (sums_in_tiles(shape.m)) {
    static_assert(RangeCutter::kColumnGrain % tile_blocks(1) == 0, "no tile is cut");
    const TileKernel kernel = choose_tile_kernel(isa, shape.m, std::max(product.a.seen_bits, product.b.seen_bits));
    TileOperand tiles;
    {
      const auto timing = run.clock.scope(Stage::build);
      tiles = make_tiles(product.b, shape.m, kernel.paired, run);
      product.b.values = {};
      product.b.cols = {};
    }
    const TileProduct rows{.a = product.a,
                           .b = tiles,
                           .kernel = kernel,
                           .m = shape.m,
                           .b_bound = product.b.seen_bits,
                           .blocks_per_side = product.blocks_per_side};
    return merge_rows<TileMerger>(rows, product, isa, output, choice, run);
  }
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
  return merge_rows<RowMerger>(rows, product, isa, output, choice, run);
}

}  // namespace spmm::cpu
