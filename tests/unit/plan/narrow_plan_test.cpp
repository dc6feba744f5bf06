// Results that are narrow compared with the grid.
#include <cstdint>

#include "plan/decide.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

using namespace spmm;
using namespace spmm::test;
using plan::KernelId;

TEST_CASE("panels are as wide as B, not as the grid") {
  constexpr std::uint32_t kRows = 1000;
  constexpr std::uint32_t kPairs = 100'000;  // of a row: far more than it could list
  plan::Statistics s = evenly_spread(8u << 20, 8, 1e7, 2047);
  s.exact = true;
  s.a_rows = kRows;
  s.row_pairs = {.num_rows = kRows, .max_row_pairs = kPairs};
  s.row_pairs.offsets.clear();
  for (std::uint64_t row = 0; row <= kRows; ++row) s.row_pairs.offsets.push_back(row * kPairs);
  s.num_pairs = static_cast<double>(kRows) * kPairs;
  plan::Limits limits = large_machine();
  limits.kernel = KernelId::row_spread;
  const plan::Execution wide = plan::decide(s, limits);
  CHECK(wide.panels.size() >= kRows / 4);
  s.c_columns_end = 64;
  const plan::Execution narrow = plan::decide(s, limits);
  REQUIRE(narrow.panels.size() == 1);
  CHECK(narrow.panels.front().num_columns == 64);
  CHECK(narrow.max_c_blocks >= std::uint64_t{kRows} * 64);
  CHECK(narrow.device_need_bytes <= wide.device_need_bytes);
}
