// The patterns of applications: their places are those of their definitions, written out once more here.
#include "tools/gen/pattern.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <set>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using tools::make_pattern;
using tools::num_places;
using tools::PatternKind;

using Cells = std::set<BlockIndex>;

Cells cells_of(const tools::Region& region) {
  Cells cells;
  for (std::uint64_t rank = 0; rank < region.capacity; ++rank) cells.insert(region.cell(rank));
  CHECK(cells.size() == region.capacity);
  return cells;
}

Cells cells_of(PatternKind kind, std::uint32_t nb, const tools::PatternOptions& options = {}) {
  return cells_of(make_pattern(kind, nb, 0, options).at(0).region);
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

struct Distance {
  std::int64_t sum;      ///< along all axes
  std::int64_t largest;  ///< along one axis
};

/// Between two nodes of a grid of `side` nodes a line.
Distance distance(std::int64_t p, std::int64_t q, std::int64_t side) {
  const auto along = [](std::int64_t a, std::int64_t b) { return a > b ? a - b : b - a; };
  const std::int64_t x = along(p % side, q % side);
  const std::int64_t y = along(p / side % side, q / side % side);
  const std::int64_t z = along(p / (side * side), q / (side * side));
  return {.sum = x + y + z, .largest = std::max({x, y, z})};
}

std::int64_t side_of(std::int64_t nb) {
  std::int64_t side = 1;
  while (side * side * side < nb) ++side;
  return side;
}

}  // namespace

TEST_CASE("stencils are the neighbours on a grid", "[tools][pattern]") {
  for (const std::uint32_t nb : {1u, 2u, 3u, 8u, 9u, 25u, 26u, 27u, 64u, 75u}) {
    INFO("nb " << nb);
    const std::int64_t cube = side_of(nb);
    CHECK(cells_of(PatternKind::stencil_7, nb) ==
          cells_where(nb, [&](std::int64_t i, std::int64_t j) { return distance(i, j, cube).sum <= 1; }));
    CHECK(cells_of(PatternKind::stencil_27, nb) ==
          cells_where(nb, [&](std::int64_t i, std::int64_t j) { return distance(i, j, cube).largest <= 1; }));
  }
  CHECK(num_places(PatternKind::stencil_27, 1000, {}) == 28u * 28u * 28u);
  CHECK(num_places(PatternKind::stencil_7, 1000, {}) == 7000u - 600u);
}

TEST_CASE("groups, arrows and saddle points", "[tools][pattern]") {
  for (const std::uint32_t nb : {1u, 4u, 5u, 12u, 40u}) {
    INFO("nb " << nb);
    for (const std::uint32_t group : {1u, 3u, 4u}) {
      if (group > nb) continue;
      CHECK(cells_of(PatternKind::block_diagonal, nb, {.group = group}) ==
            cells_where(nb, [&](std::int64_t i, std::int64_t j) { return i / group == j / group; }));
    }
    CHECK(cells_of(PatternKind::arrow, nb) ==
          cells_where(nb, [](std::int64_t i, std::int64_t j) { return i == 0 || j == 0 || i == j; }));
    const std::int64_t inner = nb - nb / 4;
    const std::int64_t side = side_of(inner);
    const auto couples = [&](std::int64_t p, std::int64_t v) { return 3 * p - 2 <= v && v <= 3 * p + 5; };
    CHECK(cells_of(PatternKind::saddle_point, nb) == cells_where(nb, [&](std::int64_t i, std::int64_t j) {
            if (i < inner && j < inner) return distance(i, j, side).sum <= 1;
            if (i < inner) return couples(j - inner, i);
            return j < inner && couples(i - inner, j);
          }));
  }
  CHECK_THROWS_AS(make_pattern(PatternKind::block_diagonal, 8, 4, {.group = 9}), UsageError);
  CHECK(num_places(PatternKind::block_diagonal, 130, {}) == 2u * 64 * 64 + 4);
}

TEST_CASE("rmat: distinct places by the quadrants of Graph500, fixed by the seed", "[tools][pattern]") {
  constexpr std::uint32_t kNb = 1000;  // no power of two: what lies outside is drawn again
  constexpr std::uint64_t kBlocks = 20'000;
  const auto pattern = make_pattern(PatternKind::rmat, kNb, kBlocks, {.seed = 5});
  REQUIRE(pattern.size() == 1);
  CHECK(pattern[0].count == kBlocks);
  CHECK(pattern[0].region.capacity >= kBlocks);
  const Cells cells = cells_of(pattern[0].region);
  CHECK(cells == cells_of(make_pattern(PatternKind::rmat, kNb, kBlocks, {.seed = 5})[0].region));
  CHECK(cells != cells_of(make_pattern(PatternKind::rmat, kNb, kBlocks, {.seed = 6})[0].region));
  CHECK(cells.rbegin()->i < kNb);
  for (const BlockIndex at : cells) CHECK(at.j < kNb);

  // Few places of a large grid hardly repeat: shares of the quadrants at the first and at the last level.
  constexpr std::uint32_t kLarge = 1u << 24;
  const auto sparse = make_pattern(PatternKind::rmat, kLarge, kBlocks, {.seed = 3});
  for (const std::uint32_t bit : {kLarge / 2, 1u}) {
    double count[2][2] = {};
    for (const BlockIndex at : cells_of(sparse[0].region)) {
      count[(at.i & bit) != 0 ? 1 : 0][(at.j & bit) != 0 ? 1 : 0] += 1.0 / static_cast<double>(kBlocks);
    }
    // 20,000 draws: one standard deviation is at most 0.0035; a quarter more are drawn than wanted.
    const double all = count[0][0] + count[0][1] + count[1][0] + count[1][1];
    CHECK(std::abs(count[0][0] / all - 0.57) < 0.02);
    CHECK(std::abs(count[0][1] / all - 0.19) < 0.02);
    CHECK(std::abs(count[1][0] / all - 0.19) < 0.02);
    CHECK(std::abs(count[1][1] / all - 0.05) < 0.02);
  }
  CHECK(cells_of(make_pattern(PatternKind::rmat, 1, 1, {})[0].region).size() == 1);
  CHECK_THROWS_WITH(make_pattern(PatternKind::rmat, 256, 65'536, {}),
                    "--k: 64 draws for each of 65536 blocks do not find as many places of the rmat pattern; give fewer "
                    "blocks or a larger --n");
}
