// Regions: their numbering is complete, ordered and consistent; permutations are permutations.
#include "tools/gen/pattern.hpp"

#include <cstdlib>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "tools/common/random.hpp"

namespace {

using namespace spmm;
using tools::make_pattern;
using tools::PatternKind;

constexpr PatternKind kKinds[] = {
    PatternKind::uniform,    PatternKind::diagonal,       PatternKind::banded, PatternKind::power_law,
    PatternKind::heavy_row,  PatternKind::heavy_column,   PatternKind::hub,    PatternKind::stencil_7,
    PatternKind::stencil_27, PatternKind::block_diagonal, PatternKind::arrow,  PatternKind::saddle_point};

/// Cells are in row-major order and inside the grid.
void check_region(const tools::Region& region, std::uint32_t nb) {
  std::set<BlockIndex> cells;
  for (std::uint64_t rank = 0; rank < region.capacity; ++rank) {
    const BlockIndex at = region.cell(rank);
    REQUIRE(at.i < nb);
    REQUIRE(at.j < nb);
    REQUIRE((cells.empty() || *cells.rbegin() < at));
    cells.insert(at);
  }
}

std::uint64_t capacity(PatternKind kind, std::uint32_t nb, std::uint64_t k, const tools::PatternOptions& options) {
  std::uint64_t sum = 0;
  for (const auto& part : make_pattern(kind, nb, k, options)) sum += part.region.capacity;
  return sum;
}

}  // namespace

TEST_CASE("every pattern numbers its cells completely and in order", "[tools][pattern]") {
  for (const PatternKind kind : kKinds) {
    for (const std::uint32_t nb : {1u, 2u, 3u, 7u, 16u, 33u}) {
      for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{nb}, std::uint64_t{nb} * nb}) {
        if (k > tools::num_places(kind, nb, {}).value_or(k)) continue;
        INFO("kind " << static_cast<int>(kind) << ", nb " << nb << ", k " << k);
        std::uint64_t count = 0;
        for (const auto& part : make_pattern(kind, nb, k, {})) {
          check_region(part.region, nb);
          REQUIRE(part.count <= part.region.capacity);
          count += part.count;
        }
        REQUIRE(count == k);
      }
    }
  }
}

TEST_CASE("bands of every width", "[tools][pattern]") {
  for (const std::uint32_t nb : {1u, 2u, 5u, 8u, 21u}) {
    for (std::uint32_t width = 0; width < nb; ++width) {
      const auto pattern = make_pattern(PatternKind::banded, nb, 0, {.bandwidth = width});
      check_region(pattern[0].region, nb);
      std::uint64_t expected = 0;
      for (std::uint32_t i = 0; i < nb; ++i) {
        for (std::uint32_t j = 0; j < nb; ++j) expected += (i > j ? i - j : j - i) <= width ? 1 : 0;
      }
      CHECK(pattern[0].region.capacity == expected);
    }
  }
}

TEST_CASE("the parts of a long row or column do not overlap", "[tools][pattern]") {
  for (const PatternKind kind : {PatternKind::heavy_row, PatternKind::heavy_column}) {
    const auto pattern = make_pattern(kind, 9, 30, {});
    REQUIRE(pattern.size() == 2);
    CHECK(pattern[0].count == 9);
    CHECK(pattern[0].region.capacity + pattern[1].region.capacity == 81);
    for (std::uint64_t rank = 0; rank < 9; ++rank) {
      const BlockIndex heavy = pattern[0].region.cell(rank);
      CHECK((kind == PatternKind::heavy_row ? heavy.i : heavy.j) == 4);
    }
    for (std::uint64_t rank = 0; rank < 72; ++rank) {
      const BlockIndex other = pattern[1].region.cell(rank);
      CHECK((kind == PatternKind::heavy_row ? other.i : other.j) != 4);
    }
  }
}

TEST_CASE("the parts of a hub do not overlap", "[tools][pattern]") {
  const auto pattern = make_pattern(PatternKind::hub, 9, 30, {});
  REQUIRE(pattern.size() == 3);
  CHECK(pattern[0].count == 9);
  CHECK(pattern[1].count == 8);  // the row has the ninth
  CHECK(pattern[2].count == 13);
  std::set<BlockIndex> cells;
  for (std::size_t p = 0; p < 3; ++p) {
    for (std::uint64_t rank = 0; rank < pattern[p].region.capacity; ++rank) {
      const BlockIndex at = pattern[p].region.cell(rank);
      CHECK((at.i == 4) == (p == 0));
      if (p != 0) CHECK((at.j == 5) == (p == 1));
      CHECK(cells.insert(at).second);
    }
  }
  CHECK(cells.size() == 81);
  const auto light = make_pattern(PatternKind::hub, 9, 5, {});
  REQUIRE(light.size() == 3);
  CHECK(light[0].count == 2);
  CHECK(light[1].count == 2);
}

TEST_CASE("patterns without a table of rows take the largest grid", "[tools][pattern]") {
  constexpr std::uint32_t kNb = UINT32_MAX;
  CHECK(capacity(PatternKind::uniform, kNb, 5, {}) == std::uint64_t{kNb} * kNb);
  CHECK(capacity(PatternKind::heavy_row, kNb, 5, {}) == std::uint64_t{kNb} * kNb);
  for (const PatternKind kind : {PatternKind::uniform, PatternKind::heavy_row, PatternKind::hub}) {
    for (const auto& part : make_pattern(kind, kNb, UINT32_MAX, {})) {
      const std::uint64_t last = part.region.capacity - 1;
      const BlockIndex at = part.region.cell(last);
      CHECK(at.i < kNb);
      CHECK(at.j < kNb);
      CHECK((last == 0 || part.region.cell(last / 3) < at));
      CHECK((last == 0 || part.region.cell(last - 1) < at));
    }
  }
}

TEST_CASE("a permutation takes every value once", "[tools][random]") {
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
  const tools::Permutation largest(UINT64_MAX, 3);
  CHECK(largest(0) != largest(1));
}

TEST_CASE("random numbers are fixed for all time", "[tools][random]") {
  // Splitmix64 from state 0, as published.
  CHECK(tools::random_at(0, 0) == 0xE220A8397B1DCDAFu);
  CHECK(tools::random_at(0, 1) == 0x6E789E6AA1B965F4u);
  CHECK(tools::random_at(0, 2) == 0x06C45D188009454Fu);
}
