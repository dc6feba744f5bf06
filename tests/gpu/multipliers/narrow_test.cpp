// Rectangular matrices padded to squares: C has far fewer block columns than its grid, and rows with many pairs.
#include <cstdint>
#include <string>

#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::MatrixBuilder;
using test::Operands;

/// A: `rows` block rows, each with blocks all along a grid of nb block columns. B: `columns` block columns from
/// `first` on, one or two blocks in each of its rows.
Operands narrow(std::uint32_t m, std::uint32_t nb, std::uint32_t rows, std::uint32_t first, std::uint32_t columns,
                std::uint32_t most, std::uint64_t seed) {
  MatrixBuilder a(nb, m, seed);
  MatrixBuilder b(nb, m, seed + 1);
  for (std::uint32_t t = 0; t < nb; ++t) {
    for (std::uint32_t i = 0; i < rows; ++i) {
      if (a.below(3) == 0) a.add_random(i, t, most);
    }
    const auto j = static_cast<std::uint32_t>(b.below(columns));
    b.add_random(t, first + j, most);
    if (columns > 1 && b.below(2) == 0) b.add_random(t, first + (j + 1) % columns, most);
  }
  return {a.matrix(), b.matrix()};
}

void check(const Operands& operands, const std::string& kernel) {
  Report report;
  Engine engine;
  INFO("m " << operands.first.m << ", kernel " << kernel);
  REQUIRE((engine.multiply(operands.first, operands.second, test::on_gpu(kernel), &report) ==
           test::oracle_multiply(operands.first, operands.second)));
  CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
}

}  // namespace

TEST_CASE("narrow results: every row kernel, columns at the beginning and at the end of the grid") {
  for (const std::uint32_t m : {1u, 2u, 4u, 6u, 8u, 12u, 16u}) {
    const std::uint32_t nb = 5000;
    for (const std::uint32_t columns : {1u, 3u, 70u}) {
      for (const std::uint32_t first : {0u, nb - columns}) {
        const Operands operands = narrow(m, nb, 5, first, columns, m % 2 == 0 ? test::kFullRange : 300, m + columns);
        for (const std::string kernel : {"auto", "rows", "row-spread", "pair-list", "small-blocks", "row-rank"}) {
          if (kernel != "auto" && !test::takes_operands(kernel, m, nb)) continue;
          if (kernel == "small-blocks" && first != 0) continue;  // long rows of a wide grid: refused
          check(operands, kernel);
        }
      }
    }
  }
}

TEST_CASE("narrow results: panels hold many rows, however wide the grid is") {
  // A grid of 2^20 block columns: a panel of a gigabyte would hold four rows of it.
  const std::uint32_t nb = 1u << 20;
  MatrixBuilder a(nb, 8, 1);
  MatrixBuilder b(nb, 8, 2);
  for (std::uint32_t i = 0; i < 64; ++i) {
    for (std::uint32_t t = 0; t < 100; ++t) a.add_random(i, t * 64 + i, 2047);
  }
  for (std::uint32_t t = 0; t < 6400; ++t) {
    for (std::uint32_t j = t % 4; j < 32; j += 4) b.add_random(t, j, 2047);
  }
  Report report;
  Engine engine;
  REQUIRE((engine.multiply(a.matrix(), b.matrix(), test::on_gpu("row-spread"), &report) ==
           test::oracle_multiply(a.matrix(), b.matrix())));
  CHECK(report.num_panels == 1);
}

TEST_CASE("small narrow results: few columns at either end of the grid") {
  for (const std::uint32_t m : {1u, 4u, 8u, 12u}) {
    for (const std::uint32_t first : {0u, 297u}) {
      const Operands operands = narrow(m, 300, 3, first, 3, 300, m);
      for (const std::string kernel : {"rows", "row-spread", "pair-list", "small-blocks", "row-rank"}) {
        if (test::takes_operands(kernel, m, 300)) check(operands, kernel);
      }
    }
  }
}
