// When row-rank is picked, and what it refuses.
#include <cmath>
#include <cstdint>

#include "kernels/tuning.hpp"
#include "plan/decide.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

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

namespace {

/// What a 27-point stencil has, and some of its rows once these are examined.
plan::Statistics stencil(std::uint32_t nodes, std::uint32_t m, bool looked_at) {
  const double blocks = 27.0 * nodes;
  plan::Statistics s = evenly_spread(nodes * m, m, blocks, 2047);
  s.num_pairs = 705.0 * nodes;
  s.num_c_blocks = s.num_pairs;
  s = counted(s, 64);
  const double plane = std::pow(nodes, 2.0 / 3);
  if (looked_at) s.row_sample = {.num_rows = 100, .pairs = 70'500, .c_blocks = 12'100, .columns = 404 * plane};
  return s;
}

}  // namespace

TEST_CASE("row-rank takes stencils, once some of their rows have been looked at") {
  const plan::Limits limits = large_machine();
  const plan::Execution before = plan::decide(stencil(1'000'000, 3, false), limits);
  CHECK(before.id == KernelId::small_blocks);
  CHECK(before.wants_row_sample);
  const plan::Execution e = plan::decide(stencil(1'000'000, 3, true), limits);
  CHECK(e.id == KernelId::row_rank);
  CHECK_FALSE(e.wants_row_sample);
  CHECK(plan::decide(stencil(125'000, 6, true), limits).id == KernelId::row_rank);
  // m = 1 stays where it is: rows hashed by a warp.
  CHECK_FALSE(plan::decide(stencil(1'000'000, 1, false), limits).wants_row_sample);
  CHECK(plan::decide(stencil(1'000'000, 1, true), limits).id == KernelId::small_blocks);
}

TEST_CASE("row-rank takes rows of which small-blocks hashes some") {
  for (const std::uint32_t m : {2u, 3u}) {
    plan::Statistics s = counted(evenly_spread(25'000 * m, m, 4e5, 2047), 2);
    s.row_pairs.max_row_pairs *= 2;
    CHECK(plan::decide(s, large_machine()).id == KernelId::row_rank);
  }
}

TEST_CASE("row-rank takes m = 12 where C blocks have few pairs") {
  plan::Statistics s = counted(evenly_spread(32'768, 12, 1.5e5, 2047));
  s.row_sample = {.num_rows = 100, .pairs = 301'700, .c_blocks = 182'600, .columns = 273'000};
  const plan::Execution e = plan::decide(s, large_machine());
  CHECK(e.id == KernelId::row_rank);
}
