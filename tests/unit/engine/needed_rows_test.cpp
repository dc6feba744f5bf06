// Which block rows of B slabs of A need: against the definition, and that no block of B is left unread.
#include "engine/slabs/needed_rows.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "spmm/error.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"

namespace {

using namespace spmm;
using test::kNoProgress;

struct Division {
  std::vector<slabs::Slab> slabs_of_a;
  slabs::NeededRows needed;
  std::vector<std::vector<std::uint32_t>> records;  ///< of B, for each slab
};

Division divide(const BlockMatrix& a, const BlockMatrix& b, std::uint32_t num_slabs) {
  const test::MemorySource source_a(a);
  const test::MemorySource source_b(b);
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = 3};
  const std::uint64_t num_groups = plan::num_row_groups(b.header());
  const slabs::ListsOfA lists = slabs::lists_of_a(source_a, num_groups, run);
  const slabs::CountsOfB counts = slabs::count_b(source_b, num_groups, run);
  const AlignedArray<std::uint32_t> groups = slabs::groups_of(source_b, num_groups, run);
  Division out;
  out.slabs_of_a = slabs::cut_slabs(slabs::count_buckets(lists.buckets, run), 0, slabs::kNumBuckets, num_slabs);
  out.needed = slabs::needed_rows(lists, counts, out.slabs_of_a, run);
  for (std::uint32_t s = 0; s < out.slabs_of_a.size(); ++s) {
    const auto records = slabs::needed_records(source_b, out.needed, s, groups, run);
    out.records.emplace_back(records.begin(), records.end());
  }
  return out;
}

bool is_in(const slabs::Slab& slab, std::uint32_t row, std::uint64_t nb) {
  const std::uint64_t bucket = std::uint64_t{row} * slabs::kNumBuckets / nb;
  return bucket >= slab.begin && bucket < slab.end;
}

}  // namespace

TEST_CASE("a slab of A gets every record of B that it meets, and every record of B is in some slab") {
  for (const test::Recipe& recipe : test::battery()) {
    const auto [a, b] = recipe.make(4, 1);
    for (const std::uint32_t num_slabs : {1u, 2u, 3u, 16u, 64u}) {
      INFO(recipe.name << ", " << num_slabs << " slabs");
      const Division division = divide(a, b, num_slabs);
      std::set<std::uint32_t> read;
      bool meets_all = true;
      for (std::size_t s = 0; s < division.slabs_of_a.size(); ++s) {
        const auto& records = division.records[s];
        CHECK(records.size() == division.needed.num_blocks[s]);
        CHECK(std::is_sorted(records.begin(), records.end()));
        CHECK(std::adjacent_find(records.begin(), records.end()) == records.end());
        read.insert(records.begin(), records.end());
        std::set<std::uint32_t> rows;
        for (const BlockIndex& at : a.index) {
          if (is_in(division.slabs_of_a[s], at.i, a.n / a.m)) rows.insert(at.j);
        }
        for (std::uint32_t r = 0; r < b.index.size(); ++r) {
          if (rows.contains(b.index[r].i)) meets_all &= std::binary_search(records.begin(), records.end(), r);
        }
      }
      CHECK(meets_all);
      CHECK(read.size() == b.index.size());
    }
  }
}

TEST_CASE("a band needs a band: slabs read little more than their share") {
  constexpr std::uint32_t kRows = 4096;
  BlockMatrix a{.n = kRows, .m = 1, .index = {}, .values = {}};
  for (std::uint32_t i = 0; i < kRows; ++i) {
    for (const std::uint32_t j : {i, (i + 1) % kRows}) a.index.push_back({.i = i, .j = j});
  }
  a.values.assign(a.index.size(), 1);
  const Division division = divide(a, a, 16);
  REQUIRE(division.slabs_of_a.size() == 16);
  for (const std::uint64_t blocks : division.needed.num_blocks) CHECK(blocks <= 2 * kRows / 16 + 2);
}

TEST_CASE("rows of B that no slab meets are dealt out evenly") {
  BlockMatrix a = test::random_matrix(1 << 12, 1, 2000, 9, 1);
  for (BlockIndex& at : a.index) at = {.i = at.i, .j = at.j % 64};
  const BlockMatrix b = test::random_matrix(1 << 12, 1, 50'000, 9, 2);
  const Division division = divide(a, b, 8);
  REQUIRE(division.slabs_of_a.size() == 8);
  const auto [least, most] = std::minmax_element(division.needed.num_blocks.begin(), division.needed.num_blocks.end());
  CHECK(*most <= *least + 100);
  CHECK(*most <= 2 * 50'000 / 8);
}

TEST_CASE("passes over indices and lists notice a cancelled run and name a record out of range") {
  BlockMatrix matrix = test::random_matrix(4 * 100, 4, 9000, 9, 1);
  std::atomic<bool> cancel = false;
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = &cancel, .num_threads = 2};
  {
    const test::MemorySource source(matrix);
    const auto lists = slabs::lists_of_a(source, 100, run);
    const auto counts = slabs::count_b(source, 100, run);
    const auto needed =
        slabs::needed_rows(lists, counts, {{.begin = 0, .end = slabs::kNumBuckets, .num_blocks = 9000}}, run);
    cancel = true;
    CHECK_THROWS_AS(slabs::lists_of_a(source, 100, run), Interrupted);
    CHECK_THROWS_AS(slabs::count_b(source, 100, run), Interrupted);
    CHECK_THROWS_AS(slabs::groups_of(source, 100, run), Interrupted);
    CHECK_THROWS_AS(slabs::needed_records(source, needed, 0, lists.groups, run), Interrupted);
    CHECK_THROWS_AS(
        slabs::needed_rows(lists, counts, {{.begin = 0, .end = slabs::kNumBuckets, .num_blocks = 9000}}, run),
        Interrupted);
    cancel = false;
  }
  matrix.index[700].j = 100;
  matrix.index[7000].i = 100;
  const test::MemorySource bad(matrix, "a.bin");
  CHECK_THROWS_WITH(slabs::lists_of_a(bad, 100, run), Catch::Contains("a.bin, record 700 "));
  CHECK_THROWS_WITH(slabs::count_b(bad, 100, run), Catch::Contains("a.bin, record 700 "));
}
