// When row-rank is picked, and what it refuses.
#include <cstdint>

#include "kernels/tuning.hpp"
#include "plan/decide.hpp"
#include "support/catch.hpp"
#include "unit/core/plan_support.hpp"

using namespace spmm;
using namespace spmm::test;
using plan::KernelId;

TEST_CASE("row-rank takes m up to 16 and rows with many pairs or very different ones") {
  plan::Limits limits = large_machine();
  const auto best = [&](const plan::Statistics& s) { return plan::decide(s, limits).id; };
  // What a 27-point stencil has, an R-MAT graph (rows by the hundred with 1,000 times the pairs of others), S1, S2, S5.
  CHECK(best(counted(evenly_spread(1'000'000, 8, 3'241'792, 2047))) == KernelId::row_rank);
  plan::Statistics skewed = counted(evenly_spread(524'288, 4, 1.5e6, 2047));
  std::uint64_t added = 0;
  for (std::size_t x = 1; x < skewed.row_pairs.offsets.size(); ++x) {
    if (x % 100 == 0) added += 100'000;
    skewed.row_pairs.offsets[x] += added;
  }
  skewed.row_pairs.max_row_pairs = 110'000;
  skewed.num_pairs += static_cast<double>(added);
  CHECK(best(skewed) == KernelId::row_rank);
  CHECK(best(counted(evenly_spread(8'192, 8, 1e5, 2047))) == KernelId::rows);
  CHECK(best(counted(evenly_spread(32'768, 4, 1e6, 2047))) == KernelId::rows);
  CHECK(best(counted(evenly_spread(1'048'576, 8, 1e6, 2047), 8)) == KernelId::rows);
  CHECK(best(counted(evenly_spread(17 * 100'000, 17, 2.5e6, 2047))) == KernelId::rows);
  limits.kernel = KernelId::row_rank;
  const plan::Execution e = plan::decide(skewed, limits);
  CHECK(e.operand_layout == plan::Layout::rows);
  CHECK(e.device_need_bytes <= limits.device->bytes);
  for (const plan::Panel& panel : e.panels) CHECK_FALSE(panel.expand);
  CHECK(plan::decide(evenly_spread(1700, 17, 1000), limits).refusal.kind == plan::Refusal::Kind::usage);
  CHECK(plan::decide(evenly_spread(2'000'000, 1, 1e6), limits).refusal.kind == plan::Refusal::Kind::usage);
}
