#include "cpu/backend.hpp"

#include <algorithm>
#include <stdexcept>

#include "cpu/operands/prepared.hpp"
#include "cpu/reference.hpp"
#include "cpu/rows/row_merge.hpp"
#include "cpu/simd/isa.hpp"

namespace spmm::cpu {
namespace {

plan::Counts statistics_of(const Prepared& product, const Source& a, const Source& b, const Selection& selection) {
  plan::Counts s{.a = a.header(),
                 .b = b.header(),
                 .exact = true,
                 .num_pairs = static_cast<double>(product.num_pairs),
                 .b_rows = product.b.num_rows(),
                 .a_span = product.a.span(),
                 .max_element = std::max(product.a.seen_bits, product.b.seen_bits)};
  std::uint64_t num_c_blocks = 0;
  for (const std::uint64_t pairs : product.row_pairs) {
    num_c_blocks += product.most_c_blocks(pairs, selection);
    s.a_rows += pairs != 0 ? 1 : 0;
  }
  s.num_c_blocks = static_cast<double>(num_c_blocks);
  return s;
}

}  // namespace

ProductStats multiply(const Source& a, const Source& b, Output& output, plan::Choice& choice, const Run& run) {
  if (choice.kernel == "reference") return multiply_reference(a, b, output, choice, run);
  if (choice.kernel != "row-merge") throw std::logic_error("no CPU kernel: " + choice.kernel);
  const Isa isa = choose_isa();
  Prepared product = prepare(a, b, packed_shape(isa, a.header().m), run);
  {
    const auto timing = run.clock.scope(Stage::plan);
    choice = plan::decide(statistics_of(product, a, b, run.selection), choice.limits);
    plan::throw_if_refused(choice);
  }
  Run decided = run;
  decided.num_threads = choice.num_threads;
  return multiply_row_merge(product, isa, output, choice, decided);
}

}  // namespace spmm::cpu
