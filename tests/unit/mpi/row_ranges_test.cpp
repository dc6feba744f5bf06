// Cutting block rows into ranges.
#include "mpi/exchange/row_ranges.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "support/catch.hpp"

namespace {

using namespace spmm::mpi;

/// The whole division from parts of the rows, as ranks make it.
std::vector<std::uint32_t> divide(const std::vector<std::vector<RowWork>>& parts, std::uint32_t num_ranges) {
  std::uint64_t total = 0;
  for (const auto& part : parts) {
    for (const RowWork& row : part) total += row.weight();
  }
  std::vector<std::uint32_t> all(num_ranges - 1, 0);
  std::uint64_t before = 0;
  for (const auto& part : parts) {
    const auto some = borders_in(part, before, total, num_ranges);
    for (std::size_t x = 0; x < all.size(); ++x) all[x] = std::max(all[x], some[x]);
    for (const RowWork& row : part) before += row.weight();
  }
  return all;
}

std::vector<std::uint64_t> weights_of(const std::vector<RowWork>& rows, const std::vector<std::uint32_t>& borders) {
  std::vector<std::uint64_t> weights(borders.size() + 1, 0);
  for (const RowWork& row : rows) weights[part_of(borders, row.row)] += row.weight();
  return weights;
}

}  // namespace

TEST_CASE("even rows are cut evenly, whatever parts they come in") {
  std::vector<RowWork> rows;
  for (std::uint32_t row = 0; row < 100; ++row) rows.push_back({.row = row * 3, .pairs = 9, .blocks = 1});
  const auto borders = divide({rows}, 4);
  CHECK(borders == std::vector<std::uint32_t>{73, 148, 223});
  CHECK(weights_of(rows, borders) == std::vector<std::uint64_t>(4, 250));
  const std::vector<RowWork> first(rows.begin(), rows.begin() + 13);
  const std::vector<RowWork> second(rows.begin() + 13, rows.begin() + 50);
  const std::vector<RowWork> third(rows.begin() + 50, rows.end());
  CHECK(divide({{}, first, second, {}, third, {}}, 4) == borders);
}

TEST_CASE("no range weighs more than its share and one row; borders ascend") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto num_rows = static_cast<std::uint32_t>(1 + random() % 60);
    const auto num_ranges = static_cast<std::uint32_t>(1 + random() % 40);
    std::vector<std::vector<RowWork>> parts(1 + random() % 5);
    std::vector<RowWork> rows;
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      const std::uint64_t pairs = random() % 4 == 0 ? random() % 5000 : random() % 5;
      rows.push_back({.row = row * 7, .pairs = pairs, .blocks = 1 + random() % 3});
      parts[std::uint64_t{row} * parts.size() / num_rows].push_back(rows.back());
    }
    const auto borders = divide(parts, num_ranges);
    REQUIRE(borders.size() == num_ranges - 1);
    CHECK(std::is_sorted(borders.begin(), borders.end()));
    std::uint64_t total = 0;
    std::uint64_t heaviest = 0;
    for (const RowWork& row : rows) {
      total += row.weight();
      heaviest = std::max(heaviest, row.weight());
    }
    for (const std::uint64_t weight : weights_of(rows, borders)) CHECK(weight <= total / num_ranges + heaviest + 1);
    CHECK(divide({rows}, num_ranges) == borders);
  }
}

TEST_CASE("one heavy row gets a range of its own; weights beyond 64 bits of intermediate results") {
  const std::uint64_t heavy = std::uint64_t{1} << 62;
  const std::vector<RowWork> rows = {{.row = 1, .pairs = 5, .blocks = 1},
                                     {.row = 2, .pairs = heavy, .blocks = 1},
                                     {.row = 4294967294u, .pairs = 5, .blocks = 1}};
  const auto weights = weights_of(rows, divide({rows}, 1000));
  CHECK(*std::max_element(weights.begin(), weights.end()) <= heavy + 13);
  CHECK(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}) == heavy + 13);
  CHECK(divide({{}, {}}, 3) == std::vector<std::uint32_t>{0, 0});
}

TEST_CASE("rows that are listed more than once are added up") {
  const std::vector<RowWork> rows = merged(
      {{.row = 7, .pairs = 1, .blocks = 1}, {.row = 2, .pairs = 5, .blocks = 2}, {.row = 7, .pairs = 3, .blocks = 4}});
  CHECK(rows == std::vector<RowWork>{{.row = 2, .pairs = 5, .blocks = 2}, {.row = 7, .pairs = 4, .blocks = 5}});
  CHECK(rows[1].max_c_blocks(3) == 3);
  CHECK(rows[1].max_c_blocks(9) == 4);
}

TEST_CASE("samples split rows into parts of equal numbers") {
  std::vector<std::uint32_t> samples(1000);
  std::iota(samples.rbegin(), samples.rend(), 0u);
  const auto first_rows = split_by_samples(samples, 4);
  CHECK(first_rows == std::vector<std::uint32_t>{250, 500, 750});
  CHECK(part_of(first_rows, 0) == 0);
  CHECK(part_of(first_rows, 249) == 0);
  CHECK(part_of(first_rows, 250) == 1);
  CHECK(part_of(first_rows, 4294967294u) == 3);
  CHECK(split_by_samples({}, 3) == std::vector<std::uint32_t>{0, 0});
  CHECK(split_by_samples({5}, 1).empty());
}

TEST_CASE("what a step meets counts once") {
  // Rounds 0 to 3 meet {0, 1}, {1}, {2}, {0, 2}; sizes 10, 20, 30; records in any order.
  const std::vector<std::uint32_t> rounds = {3, 0, 1, 0, 2, 3};
  const std::vector<std::uint32_t> met = {0, 0, 1, 1, 2, 2};
  const std::vector<std::uint64_t> sizes = {10, 20, 30};
  CHECK(largest_step(rounds, met, sizes, 4, 4) == 60);
  CHECK(largest_step(rounds, met, sizes, 2, 4) == 40);
  CHECK(largest_step(rounds, met, sizes, 1, 4) == 40);
  CHECK(largest_step(rounds, met, sizes, 3, 4) == 60);
  CHECK(largest_step({}, {}, {}, 1, 1) == 0);
}
