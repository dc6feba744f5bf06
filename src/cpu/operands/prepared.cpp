#include "cpu/operands/prepared.hpp"

#include <cstddef>

#include "base/run/run.hpp"

namespace spmm::cpu {

Prepared prepare(const Source& a, const Source& b, const PackedShape& shape, const Run& run) {
  const std::uint64_t record = input_record_bytes(shape.m);
  Progress progress(run, Stage::read, (std::uint64_t{a.header().num_blocks} + b.header().num_blocks) * record);
  Prepared out;
  out.shape = shape;
  out.blocks_per_side = a.header().blocks_per_side();
  // One after the other: B's records go where A's were, and pages that were used before need not be cleared.
  out.a = build_operand(a, Side::a, shape, progress, run);
  out.b = build_operand(b, Side::b, shape, progress, run);
  const auto timing = run.clock.scope(Stage::count);
  out.row_pairs = link_rows(out.a, out.b, out.blocks_per_side, run);
  for_ranges(run, out.row_pairs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) out.num_pairs += out.row_pairs[r];
  });
  return out;
}

}  // namespace spmm::cpu
