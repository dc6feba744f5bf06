// Patterns: their places are those of their definitions, numbered completely and in order; permutations are
// permutations.
#include "tools/gen/gen.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "tools/common/random.hpp"

namespace {

using namespace spmm;
using tools::make_pattern;
using Cells = std::set<BlockIndex>;

/// Cells of a part, which are in row-major order and inside the grid.
Cells cells_of(const tools::Part& part, std::uint32_t nb) {
  Cells cells;
  for (std::uint64_t rank = 0; rank < part.capacity; ++rank) {
    const BlockIndex at = part.cell(rank);
    REQUIRE((at.i < nb && at.j < nb));
    REQUIRE((cells.empty() || *cells.rbegin() < at));
    cells.insert(at);
  }
  return cells;
}

/// Nothing if the pattern has fewer places.
std::vector<tools::Part> parts_if_they_fit(const std::string& kind, std::uint32_t nb, std::uint64_t k) {
  try {
    return make_pattern(kind, nb, k, {});
  } catch (const UsageError&) {
    return {};
  }
}

Cells cells_of(const std::string& kind, std::uint32_t nb, const tools::PatternOptions& options = {}) {
  return cells_of(make_pattern(kind, nb, 0, options).at(0), nb);
}

Cells cells_where(std::uint32_t nb, const std::function<bool(std::int64_t, std::int64_t)>& holds) {
  Cells cells;
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (std::uint32_t j = 0; j < nb; ++j) {
      if (holds(i, j)) cells.insert({.i = i, .j = j});
    }
  }
  return cells;
}

/// Distances of two nodes of a grid of `side` nodes a line: along all axes, and along one.
std::pair<std::int64_t, std::int64_t> distance(std::int64_t p, std::int64_t q, std::int64_t side) {
  const std::int64_t x = std::abs(p % side - q % side);
  const std::int64_t y = std::abs(p / side % side - q / side % side);
  const std::int64_t z = std::abs(p / (side * side) - q / (side * side));
  return {x + y + z, std::max({x, y, z})};
}

std::int64_t side_of(std::int64_t nb) {
  std::int64_t side = 1;
  while (side * side * side < nb) ++side;
  return side;
}

}  // namespace

TEST_CASE("every pattern numbers its cells completely and in order", "[tools][pattern]") {
  for (const std::string& kind : tools::pattern_names()) {
    for (const std::uint32_t nb : {1u, 2u, 3u, 7u, 16u, 33u}) {
      for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{nb}, std::uint64_t{nb} * nb}) {
        if (kind == "rmat") continue;
        INFO(kind << ", nb " << nb << ", k " << k);
        std::uint64_t count = 0;
        Cells all;
        const auto parts = parts_if_they_fit(kind, nb, k);
        if (parts.empty()) continue;
        for (const auto& part : parts) {
          const Cells cells = cells_of(part, nb);
          REQUIRE(part.count <= cells.size());
          count += part.count;
          for (const BlockIndex at : cells) REQUIRE(all.insert(at).second);  // parts do not overlap
        }
        REQUIRE(count == k);
      }
    }
  }
}

TEST_CASE("bands, stencils, groups, arrows and saddle points are their definitions", "[tools][pattern]") {
  for (const std::uint32_t nb : {1u, 2u, 3u, 5u, 8u, 9u, 25u, 27u, 40u, 64u}) {
    INFO("nb " << nb);
    for (std::uint32_t width = 0; width < std::min(nb, 9u); ++width) {
      CHECK(cells_of("banded", nb, {.bandwidth = width}) ==
            cells_where(nb, [&](std::int64_t i, std::int64_t j) { return std::abs(i - j) <= width; }));
    }
    const std::int64_t cube = side_of(nb);
    CHECK(cells_of("stencil-7", nb) ==
          cells_where(nb, [&](std::int64_t i, std::int64_t j) { return distance(i, j, cube).first <= 1; }));
    CHECK(cells_of("stencil-27", nb) ==
          cells_where(nb, [&](std::int64_t i, std::int64_t j) { return distance(i, j, cube).second <= 1; }));
    for (const std::uint32_t group : {1u, 3u, 4u}) {
      if (group > nb) continue;
      CHECK(cells_of("block-diagonal", nb, {.group = group}) ==
            cells_where(nb, [&](std::int64_t i, std::int64_t j) { return i / group == j / group; }));
    }
    CHECK(cells_of("arrow", nb) ==
          cells_where(nb, [](std::int64_t i, std::int64_t j) { return i == 0 || j == 0 || i == j; }));
    const std::int64_t inner = nb - nb / 4;
    const std::int64_t side = side_of(inner);
    const auto couples = [&](std::int64_t p, std::int64_t v) { return 3 * p - 2 <= v && v <= 3 * p + 5; };
    CHECK(cells_of("saddle-point", nb) == cells_where(nb, [&](std::int64_t i, std::int64_t j) {
            if (i < inner && j < inner) return distance(i, j, side).first <= 1;
            if (i < inner) return couples(j - inner, i);
            return j < inner && couples(i - inner, j);
          }));
  }
  CHECK_THROWS_AS(make_pattern("block-diagonal", 8, 4, {.group = 9}), UsageError);
  CHECK(cells_of("block-diagonal", 130).size() == 2u * 64 * 64 + 4);
  CHECK(cells_of("stencil-27", 1000).size() == 28u * 28u * 28u);
}

TEST_CASE("a long row, a long column, and both", "[tools][pattern]") {
  const auto row = make_pattern("heavy-row", 9, 30, {});
  CHECK(row.at(0).count == 9);
  CHECK(cells_of(row[0], 9) == cells_where(9, [](auto i, auto) { return i == 4; }));
  CHECK(row.at(1).capacity == 72);
  const auto column = make_pattern("heavy-column", 9, 30, {});
  CHECK(cells_of(column.at(0), 9) == cells_where(9, [](auto, auto j) { return j == 4; }));
  const auto hub = make_pattern("hub", 9, 30, {});
  CHECK(hub.at(0).count == 9);
  CHECK(hub.at(1).count == 8);  // the row has the ninth
  CHECK(hub.at(2).count == 13);
  CHECK(cells_of(hub[1], 9) == cells_where(9, [](auto i, auto j) { return i != 4 && j == 5; }));
}

TEST_CASE("patterns without a table of rows take the largest grid", "[tools][pattern]") {
  constexpr std::uint32_t kNb = UINT32_MAX;
  for (const char* kind : {"uniform", "heavy-row", "hub"}) {
    std::uint64_t capacity = 0;
    for (const auto& part : make_pattern(kind, kNb, UINT32_MAX, {})) {
      const std::uint64_t last = part.capacity - 1;
      capacity += part.capacity;
      const BlockIndex at = part.cell(last);
      CHECK((at.i < kNb && at.j < kNb));
      CHECK((last == 0 || part.cell(last - 1) < at));
    }
    CHECK(capacity == std::uint64_t{kNb} * kNb);
  }
}

TEST_CASE("rmat: distinct places by the quadrants of Graph500, fixed by the seed", "[tools][pattern]") {
  constexpr std::uint32_t kNb = 1000;  // no power of two: what lies outside is drawn again
  constexpr std::uint64_t kBlocks = 20'000;
  const auto cells_of_seed = [&](std::uint64_t seed) {
    return cells_of(make_pattern("rmat", kNb, kBlocks, {.seed = seed}).at(0), kNb);
  };
  const Cells cells = cells_of_seed(5);
  CHECK(cells.size() >= kBlocks);
  CHECK(cells == cells_of_seed(5));
  CHECK(cells != cells_of_seed(6));

  // Few places of a large grid hardly repeat: shares of the quadrants at the first and at the last level.
  constexpr std::uint32_t kLarge = 1u << 24;
  const Cells sparse = cells_of(make_pattern("rmat", kLarge, kBlocks, {.seed = 3}).at(0), kLarge);
  for (const std::uint32_t bit : {kLarge / 2, 1u}) {
    double share[2][2] = {};
    for (const BlockIndex at : sparse) {
      share[(at.i & bit) != 0 ? 1 : 0][(at.j & bit) != 0 ? 1 : 0] += 1.0 / static_cast<double>(sparse.size());
    }
    // 20,000 draws: one standard deviation is at most 0.0035.
    CHECK(std::abs(share[0][0] - 0.57) < 0.02);
    CHECK(std::abs(share[0][1] - 0.19) < 0.02);
    CHECK(std::abs(share[1][0] - 0.19) < 0.02);
  }
  CHECK(cells_of(make_pattern("rmat", 1, 1, {})[0], 1).size() == 1);
  CHECK_THROWS_AS(make_pattern("rmat", 256, 65'536, {}), UsageError);
}

TEST_CASE("a permutation takes every value once; random numbers are fixed for all time", "[tools][random]") {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 7, 64, 65, 1000, 4097}) {
    for (const std::uint64_t key : {0, 1, 99}) {
      const tools::Permutation permutation(size, key);
      std::vector<bool> taken(size);
      std::uint64_t fixed = 0;
      for (std::uint64_t x = 0; x < size; ++x) {
        const std::uint64_t y = permutation(x);
        REQUIRE(y < size);
        REQUIRE_FALSE(taken[y]);
        taken[y] = true;
        fixed += x == y ? 1 : 0;
      }
      if (size >= 64) CHECK(fixed < 10);  // 1 is to be expected
    }
  }
  // Splitmix64 from state 0, as published.
  CHECK(tools::random_at(0, 0) == 0xE220A8397B1DCDAFu);
  CHECK(tools::random_at(0, 2) == 0x06C45D188009454Fu);
}
