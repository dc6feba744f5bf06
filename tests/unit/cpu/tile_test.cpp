// Small blocks in tiles: windows of columns, sorted tiles.
#include "cpu/simd/layout.hpp"

#include <cstdint>
#include <ctime>
#include <random>
#include <set>
#include <vector>

#include "cpu/simd/isa.hpp"
#include "cpu/simd/tile_kernel.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

/// Elements on both sides of what the kernel of paired rows takes.
constexpr std::uint32_t kLargest[] = {65'535, cpu::kMaxPairedElement};

/// One row of A that meets `num_rows` rows of B with `per_row` blocks each, in columns [first, first + span).
struct WideRow {
  std::uint32_t num_rows;
  std::uint32_t per_row;
  std::uint32_t first;
  std::uint32_t span;
};

void add_row(MatrixBuilder& a, MatrixBuilder& b, std::uint32_t number, const WideRow& row, std::uint32_t largest,
             std::mt19937_64& random) {
  const std::uint32_t first_of_b = number * 50'000;
  for (std::uint32_t t = 0; t < row.num_rows; ++t) {
    a.add_random(number, first_of_b + t, largest);
    std::set<std::uint32_t> columns;
    while (columns.size() < row.per_row) {
      columns.insert(row.first + static_cast<std::uint32_t>(random() % row.span));
    }
    for (const std::uint32_t column : columns) b.add_random(first_of_b + t, column, largest);
  }
}

}  // namespace

TEST_CASE("cpu: rows of small blocks that a window does not hold") {
  for (const auto& [m, largest] :
       {std::pair{1u, kLargest[0]}, {2u, kLargest[0]}, {3u, kLargest[0]}, {2u, kLargest[1]}, {3u, kLargest[1]}}) {
    const std::uint32_t nb = 0xFFFF'FFFFu / m;
    const std::uint32_t window = cpu::wide_tile(m).window(nb, ~std::uint64_t{0}) * cpu::tile_blocks(m);
    REQUIRE(window < 2'000'000);
    INFO("m = " << m << ", elements up to " << largest);
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    std::mt19937_64 random(m);
    const std::vector<WideRow> rows = {
        {.num_rows = 5, .per_row = 40, .first = nb - 600, .span = 600},            // one window, far out
        {.num_rows = 3, .per_row = 300, .first = 1000, .span = 3 * window},        // several windows, well filled
        {.num_rows = 20, .per_row = 2, .first = 0, .span = nb},                    // few tiles: compared
        {.num_rows = 700, .per_row = 1, .first = 0, .span = nb},                   // more: by digits
        {.num_rows = 35'000, .per_row = 1, .first = nb / 2, .span = 40 * window},  // too many to be sorted at once
        {.num_rows = 1, .per_row = 2, .first = window - 9, .span = 18},            // around the end of a window
    };
    for (std::uint32_t r = 0; r < rows.size(); ++r) add_row(a, b, r, rows[r], largest, random);
    check_product(a.matrix(), b.matrix());
  }
}

TEST_CASE("cpu: few tiles of a wide row are sorted by the highest bit of their columns, too") {
  constexpr std::uint32_t kSide = 0xC000'0000u;
  MatrixBuilder a(kSide, 1, 1);
  MatrixBuilder b(kSide, 1, 2);
  for (std::uint32_t t = 0; t < 8; ++t) {
    a.add_constant(3, t, t + 1);
    for (std::uint32_t x = 0; x < 50; ++x) b.add_constant(t, (49 - x) * 60'000'000 + 8 * t, x + 1);
  }
  check_product(a.matrix(), b.matrix());
}

TEST_CASE("cpu: a long row that meets one wide row and many short ones is not searched for every window") {
  constexpr std::uint32_t kSide = 0xFFFF'FFFFu;
  constexpr std::uint32_t kBlocks = 60'000;
  /// Processor time of the product whose wide row has a block in every `step`-th column.
  const auto seconds = [&](std::uint32_t step) {
    BlockMatrix a{.n = kSide, .m = 1, .index = {}, .values = std::vector<std::uint16_t>(kBlocks, 3)};
    BlockMatrix b{.n = kSide, .m = 1, .index = {}, .values = std::vector<std::uint16_t>(2 * kBlocks - 1, 5)};
    for (std::uint32_t x = 0; x < kBlocks; ++x) {
      a.index.push_back({.i = 0, .j = x});
      b.index.push_back({.i = 0, .j = x * step});
      if (x != 0) b.index.push_back({.i = x, .j = 0});
    }
    const std::clock_t start = std::clock();
    check_product(a, b);
    return static_cast<double>(std::clock() - start);
  };
  const double in_one_window = seconds(1);
  CHECK(seconds(kSide / kBlocks) < 10 * in_one_window);  // 2.2 times as long; where each window searches, far more
}

}  // namespace spmm::test
