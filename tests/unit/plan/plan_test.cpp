// Row panels and sizes of dense operands: pure functions, checked as such.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/dense/layout.hpp"
#include "kernels/tiles/grid.hpp"
#include "kernels/tuning.hpp"
#include "plan/choice.hpp"
#include "plan/panels/panels.hpp"
#include "plan/panels/row_cut.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using plan::Panel;
using Rows = std::vector<std::uint32_t>;

/// Rows with these pairs, in runs.
plan::RowPairs offsets_of(const std::vector<std::uint64_t>& pairs, std::uint32_t rows_per_run = 1) {
  plan::RowPairs out{.rows_per_run = rows_per_run, .num_rows = static_cast<std::uint32_t>(pairs.size())};
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < pairs.size(); ++r) {
    sum += pairs[r];
    if ((r + 1) % rows_per_run == 0 || r + 1 == pairs.size()) out.offsets.push_back(sum);
  }
  return out;
}

/// Most pairs of a run that begins in the panel.
std::uint64_t max_run_pairs(const plan::RowPairs& runs, const Panel& panel) {
  std::uint64_t most = 0;
  for (std::size_t run = 0; run < runs.num_runs(); ++run) {
    const std::uint32_t line = runs.first_row(run);
    if (line < panel.row_begin || line >= panel.row_begin + panel.num_rows) continue;
    most = std::max(most, runs.offsets[run + 1] - runs.offsets[run]);
  }
  return most;
}

/// Every row with pairs is covered exactly once, in order, and no panel is too large.
void check_cover(const std::vector<std::uint64_t>& pairs, std::uint32_t num_columns, std::uint64_t max_c_blocks,
                 std::uint32_t rows_per_run = 1, plan::Listing listing = plan::Listing::by_density) {
  const plan::RowPairs runs = offsets_of(pairs, rows_per_run);
  const std::vector<Panel> panels = plan::cut_panels(runs, num_columns, max_c_blocks, listing);
  std::vector<std::uint64_t> columns_done(pairs.size(), 0);
  std::uint64_t counted_pairs = 0;
  std::uint64_t last_row = 0;
  for (const Panel& panel : panels) {
    REQUIRE(panel.max_c_blocks() <= max_c_blocks);
    REQUIRE(panel.max_c_blocks() >= 1);
    if (panel.expand) REQUIRE(panel.num_pairs <= max_c_blocks);
    REQUIRE(panel.row_begin >= last_row);
    last_row = panel.row_begin;
    counted_pairs += panel.num_pairs;
    REQUIRE(panel.max_row_pairs == max_run_pairs(runs, panel));
    for (std::uint32_t r = panel.row_begin; r < panel.row_begin + panel.num_rows; ++r) {
      REQUIRE(columns_done[r] == panel.column_begin);
      columns_done[r] += panel.num_columns;
    }
  }
  std::uint64_t all_pairs = 0;
  for (std::size_t r = 0; r < pairs.size(); ++r) {
    all_pairs += pairs[r];
    if (pairs[r] != 0) REQUIRE(columns_done[r] == num_columns);
  }
  REQUIRE(counted_pairs == all_pairs);
}

}  // namespace

TEST_CASE("panels cover every row with pairs once") {
  check_cover({}, 5, 1);
  check_cover({0, 0, 0}, 5, 1);
  check_cover({1}, 1, 1);
  check_cover({3, 0, 0, 1000, 2, 0}, 10, 4);
  check_cover({7, 7, 7, 7}, 7, 7);
  check_cover({7, 7, 7, 7}, 7, 6);
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> pairs(random() % 60);
    for (auto& p : pairs) p = random() % 3 == 0 ? 0 : random() % (random() % 10 == 0 ? 100'000 : 30);
    check_cover(pairs, 1 + static_cast<std::uint32_t>(random() % 50), 1 + random() % 300);
  }
}

TEST_CASE("panels of short rows are cut between runs") {
  check_cover({1, 2, 0, 3, 1, 1, 0}, 1000, 8, 3);
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> pairs(random() % 200);
    for (auto& p : pairs) p = random() % 4;
    check_cover(pairs, 1 + static_cast<std::uint32_t>(random() % 50), 30 + random() % 300,
                1 + static_cast<std::uint32_t>(random() % 10));
  }
}

TEST_CASE("a panel knows a bound on the pairs of its rows") {
  const auto bounds = [](const plan::RowPairs& rows, std::uint64_t max_c_blocks) {
    std::vector<std::uint64_t> all;
    for (const Panel& panel : plan::cut_panels(rows, 1000, max_c_blocks)) all.push_back(panel.max_row_pairs);
    return all;
  };
  using Numbers = std::vector<std::uint64_t>;
  CHECK(bounds(offsets_of({3, 90, 7, 0, 20}), 1000) == Numbers{90});
  CHECK(bounds(offsets_of({60, 50, 0, 10, 70}), 100) == Numbers{60, 50, 70});
  CHECK(bounds(offsets_of({5, 5000}), 900) == Numbers{5, 5000, 5000});  // two column chunks
  plan::RowPairs in_runs = offsets_of({3, 90, 7, 0, 20}, 2);
  CHECK(bounds(in_runs, 1000) == Numbers{93});
  in_runs.max_row_pairs = 90;  // of the whole matrix
  CHECK(bounds(in_runs, 1000) == Numbers{90});
}

TEST_CASE("panels bounded by their rows' pairs cover every row once, and are as large as the bounds allow") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> pairs(random() % 60);
    for (auto& p : pairs) p = random() % 3 == 0 ? 0 : random() % (random() % 10 == 0 ? 100'000 : 30);
    const auto num_columns = 1 + static_cast<std::uint32_t>(random() % 50);
    check_cover(pairs, num_columns, 1 + random() % 300, 1, plan::Listing::bounded);
    const auto rows_per_run = 1 + static_cast<std::uint32_t>(random() % 5);
    check_cover(pairs, num_columns, rows_per_run * num_columns + random() % 300, rows_per_run, plan::Listing::bounded);
  }
  // 10,000 rows of 2 pairs and 10 of 2,000 in 1,000 columns: 30,000 C blocks at most.
  std::vector<std::uint64_t> mixed(10'000, 2);
  mixed.insert(mixed.end(), 10, 2000);
  const std::vector<Panel> one = plan::cut_panels(offsets_of(mixed), 1000, 30'000, plan::Listing::bounded);
  CHECK(one.size() == 1);
  CHECK(one.front().max_c_blocks() == 30'000);
  CHECK(one.front().max_row_pairs == 2000);
  CHECK(plan::cut_panels(offsets_of(mixed), 1000, 29'999, plan::Listing::bounded).size() == 2);
  // Rows take memory too: no more of them than C blocks.
  const std::vector<std::uint64_t> sparse = {5, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  CHECK(plan::cut_panels(offsets_of(sparse), 1000, 9, plan::Listing::bounded).size() == 2);
  CHECK(plan::cut_panels(offsets_of(sparse), 1000, 10, plan::Listing::bounded).size() == 1);
}

TEST_CASE("alternating long and short rows do not make a panel each") {
  std::vector<std::uint64_t> pairs;
  for (int r = 0; r < 10'000; ++r) pairs.push_back(r % 2 == 0 ? 1 : 90);
  CHECK(plan::cut_panels(offsets_of(pairs), 100, 100'000).size() <= 12);
}

TEST_CASE("rows whose pairs are listed together are as many as fit, and a row that does not fit is alone") {
  std::vector<std::uint64_t> pairs;
  std::vector<std::uint32_t> first_blocks{0};
  for (std::uint32_t row = 0; row < 500; ++row) {
    pairs.push_back(row % 100 == 50 ? 3000 : row * 37 % 90);
    first_blocks.push_back(first_blocks.back() + static_cast<std::uint32_t>(pairs.back() + 1) / 2);
  }
  const plan::RowPairs rows = offsets_of(pairs);
  for (const std::uint64_t block_bytes : {0u, 64u}) {
    for (const std::uint64_t most_bytes : {1u, 2000u, 20'000u, 1'000'000u}) {
      INFO(most_bytes << " bytes, " << block_bytes << " a block");
      const auto parts = plan::cut_rows(rows, first_blocks, most_bytes, block_bytes);
      std::uint32_t end = 0;
      for (std::size_t x = 0; x < parts.size(); ++x) {
        const plan::ListedRows& part = parts[x];
        REQUIRE(part.row_begin == end);
        end += part.num_rows;
        CHECK(part.num_pairs == rows.offsets[end] - rows.offsets[part.row_begin]);
        CHECK(part.first_block == first_blocks[part.row_begin]);
        CHECK(part.num_blocks == first_blocks[end] - part.first_block);
        CHECK((part.num_rows == 1 || part.bytes(block_bytes) <= most_bytes));
        if (end == 500) continue;
        const std::uint64_t next = 8 * pairs[end] + 16 + block_bytes * (first_blocks[end + 1] - first_blocks[end]);
        CHECK(part.bytes(block_bytes) + next > most_bytes);
      }
      CHECK(end == 500);
    }
  }
  CHECK(plan::cut_rows(rows, first_blocks, 1'000'000, 0).size() == 1);
}

TEST_CASE("rows are cut at the nearest border of equal weights") {
  const std::vector<std::uint64_t> even(8, 5);
  CHECK(plan::cut_by_weight(even, 0, {.first = 0, .end = 8}, 4) == Rows{0, 2, 4, 6, 8});
  CHECK(plan::cut_by_weight(even, 0, {.first = 0, .end = 8}, 3) == Rows{0, 3, 5, 8});
  CHECK(plan::cut_by_weight(even, 2, {.first = 3, .end = 30}, 2) == Rows{3, 16, 30});
  CHECK(plan::cut_by_weight(even, 2, {.first = 18, .end = 30}, 2) == Rows{18, 18, 30});
  // A heavy row is not cut, and other rows make up for it.
  const std::vector<std::uint64_t> heavy = {1, 1, 100, 1, 1};
  CHECK(plan::cut_by_weight(heavy, 0, {.first = 0, .end = 5}, 2) == Rows{0, 3, 5});
  CHECK(plan::cut_by_weight(heavy, 0, {.first = 0, .end = 5}, 4) == Rows{0, 2, 3, 3, 5});
  const std::vector<std::uint64_t> none(5, 0);
  CHECK(plan::cut_by_weight(none, 0, {.first = 0, .end = 5}, 3) == Rows{0, 5, 5, 5});
  CHECK(plan::cut_by_weight(even, 0, {.first = 0, .end = 8}, 1) == Rows{0, 8});
  const std::vector<std::uint64_t> large(3, std::uint64_t{1} << 63);
  CHECK(plan::cut_by_weight(large, 0, {.first = 0, .end = 3}, 3) == Rows{0, 1, 2, 3});
}

TEST_CASE("a hypersparse result is listed, a dense one visited") {
  CHECK(plan::cut_panels(offsets_of({5, 5, 5}), 1000, 1 << 20).front().expand);
  CHECK_FALSE(plan::cut_panels(offsets_of({900, 900}), 1000, 1 << 20).front().expand);
}

TEST_CASE("byte planes hold every element") {
  CHECK(kernels::num_byte_planes(255) == 1);
  CHECK(kernels::num_byte_planes(256) == 2);
  CHECK(kernels::low_plane_bits(255, 1) == 0);
  CHECK(kernels::low_plane_bits(2047, 1) == 3);
  CHECK(kernels::low_plane_bits(2048, 2) == 4);
  CHECK(kernels::low_plane_bits(65'535, 2) == 8);
  for (const std::uint32_t largest : {256u, 511u, 512u, 1000u, 16'383u}) {
    const std::uint32_t bits = kernels::low_plane_bits(largest, 3);
    CHECK((largest >> bits) + (1u << bits) - 1 <= 254);
    CHECK(kernels::num_dense_planes(largest) == 3);
  }
  CHECK(kernels::num_dense_planes(255) == 1);
  CHECK(kernels::num_dense_planes(16'384) == 2);
}

TEST_CASE("groups of block columns in byte planes stay within the free memory and are whole tiles of a plane") {
  for (const std::uint32_t m : {1u, 4u, 7u, 8u, 64u}) {
    for (const std::uint32_t planes : {1u, 2u, 3u}) {
      const kernels::TileGrid grid{
          .m = m, .num_rows = 100, .nb = 1500, .num_columns = 1500, .num_planes = planes, .is_full = true};
      const std::uint64_t all = grid.planes_held() * grid.b_plane_bytes();
      CHECK(grid.with_columns_in(all).num_columns == 1500);
      for (const std::uint64_t free : {all - 1, all / 2, all / 5, std::uint64_t{1}}) {
        const kernels::TileGrid part = grid.with_columns_in(free);
        INFO("m " << m << ", " << planes << " planes, free " << free);
        CHECK(part.planes_held() * part.b_plane_bytes() <= free);
        CHECK((part.num_columns == 1500 || 255 - (part.num_columns * m + 255) % 256 < m));
        CHECK(planes * part.b_plane_bytes() >= part.num_sets() * part.b_tiles() * kernels::kTileBytesB);
        CHECK(planes * part.a_plane_bytes() >= part.num_sets() * part.a_tiles() * kernels::kTileBytesA);
      }
    }
  }
}

TEST_CASE("groups of dense columns stay within the free memory and are whole tiles of the kernel") {
  for (const std::uint32_t m : {1u, 4u, 7u, 8u, 64u}) {
    for (const std::uint32_t nb : {1u, 3u, 100u, 1500u}) {
      const kernels::DenseOperands operands{.nb = nb, .m = m};
      const std::uint64_t all = operands.b_bytes(nb);
      CHECK(operands.columns_in(all) == nb);
      for (const std::uint64_t free : {all - 1, all / 2, all / 10, std::uint64_t{1}}) {
        const std::uint32_t group = operands.columns_in(free);
        INFO("m " << m << ", nb " << nb << ", free " << free);
        CHECK(group <= nb);
        CHECK((group == 0 || operands.b_bytes(group) <= free));
        CHECK((group == nb || group * m < 128 || group % std::max(1u, 128 / m) == 0));
      }
    }
  }
}

TEST_CASE("listing can be forbidden and preferred") {
  const auto offsets = offsets_of({5, 900, 5});
  for (const Panel& panel : plan::cut_panels(offsets, 1000, 1 << 20, plan::Listing::never)) CHECK_FALSE(panel.expand);
  for (const Panel& panel : plan::cut_panels(offsets, 1000, 1 << 20, plan::Listing::wherever_it_fits)) {
    CHECK(panel.expand);
  }
}
