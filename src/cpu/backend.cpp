#include "cpu/backend.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cpu/operands/prepared.hpp"
#include "cpu/reference.hpp"
#include "cpu/rows/merge.hpp"
#include "cpu/simd/isa.hpp"

namespace spmm::cpu {
namespace {

/// The share of C's rows that are expected to meet a block with an element of more than 15 bits, if such blocks lie
/// anywhere in their operand.
double wide_share(const PackedOperand& a, const PackedOperand& b) {
  if (a.cols.size() == 0 || b.cols.size() == 0) return 0;
  const auto row_blocks = [](const PackedOperand& x) { return static_cast<double>(x.cols.size()) / x.num_rows(); };
  const auto small_rows = [&](const PackedOperand& x) {
    return std::pow(1 - static_cast<double>(x.large_blocks) / static_cast<double>(x.cols.size()), row_blocks(x));
  };
  return 1 - small_rows(a) * std::pow(small_rows(b), row_blocks(a));
}

plan::Statistics statistics_of(const Prepared& product, const Source& a, const Source& b) {
  plan::Statistics s{.a = a.header(),
                     .b = b.header(),
                     .exact = true,
                     .num_pairs = static_cast<double>(product.num_pairs),
                     .b_rows = product.b.num_rows(),
                     .tile_pairs = static_cast<double>(product.tile_pairs),
                     .likely_c_blocks = product.likely.c_blocks,
                     .rows = product.likely.rows,
                     .max_element = std::max(product.a.seen_bits, product.b.seen_bits),
                     .wide_share = wide_share(product.a, product.b)};
  std::uint64_t num_c_blocks = 0;
  for (const std::uint64_t pairs : product.row_pairs) {
    num_c_blocks += std::min<std::uint64_t>(pairs, product.blocks_per_side);
    s.a_rows += pairs != 0 ? 1 : 0;
  }
  s.num_c_blocks = static_cast<double>(num_c_blocks);
  return s;
}

}  // namespace

ProductStats multiply(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                      const plan::Decide& decide, const Run& run) {
  if (execution.id == plan::KernelId::reference) return multiply_reference(a, b, sink, execution, run);
  if (execution.id != plan::KernelId::row_merge) throw std::logic_error("no CPU kernel: " + execution.kernel);
  const Isa isa = choose_isa();
  Prepared product = prepare(a, b, packed_shape(isa, a.header().m), run);
  {
    const auto timing = run.clock.scope(Stage::plan);
    execution = decide(statistics_of(product, a, b));
    plan::throw_if_refused(execution);
  }
  Run decided = run;
  decided.num_threads = execution.num_threads;
  return multiply_row_merge(product, isa, sink, execution, decided);
}

}  // namespace spmm::cpu
