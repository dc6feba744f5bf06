#include "cpu/prepared.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/cancellable.hpp"
#include "cpu/read_records.hpp"
#include "cpu/stage_progress.hpp"

namespace spmm::cpu {

Prepared prepare(const Source& a, const Source& b, const PackedShape& shape, const Run& run) {
  const std::uint64_t record = input_record_bytes(shape.m);
  Progress progress(run, Stage::read, (std::uint64_t{a.header().num_blocks} + b.header().num_blocks) * record);
  Prepared out;
  out.shape = shape;
  out.blocks_per_side = a.header().blocks_per_side();
  AlignedArray<std::byte> raw_a = read_records(a, progress, run);
  AlignedArray<std::byte> raw_b = read_records(b, progress, run);
  out.a = build_operand(a, std::move(raw_a), Side::a, shape, run);
  out.b = build_operand(b, std::move(raw_b), Side::b, shape, run);
  const auto timing = run.clock.scope(Stage::count);
  out.row_pairs = link_rows(out.a, out.b, out.blocks_per_side, run);
  for_ranges(run, out.row_pairs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) out.num_pairs += out.row_pairs[r];
  });
  return out;
}

std::uint64_t preparing_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const PackedShape shape = largest_packed_shape(a.m);
  const std::uint64_t raw_a = a.num_blocks * input_record_bytes(a.m);
  const std::uint64_t raw_b = b.num_blocks * input_record_bytes(b.m);
  return std::max(raw_a + raw_b + build_bytes(a, Side::a, shape),
                  operand_bytes(a, Side::a, shape) + raw_b + build_bytes(b, Side::b, shape));
}

std::uint64_t prepared_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const PackedShape shape = largest_packed_shape(a.m);
  return operand_bytes(a, Side::a, shape) + operand_bytes(b, Side::b, shape) + link_bytes(a, b);
}

std::uint64_t output_buffer_bytes(const Plan& plan, std::uint32_t m) {
  const std::uint64_t record = output_record_bytes(m);
  return std::max(plan.panel_bytes / record, std::uint64_t{1}) * record;
}

}  // namespace spmm::cpu
