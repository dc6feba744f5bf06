// Rows whose sums lie in memory column by column: sides, instruction sets, sums beyond 32 bits, ranges of columns.
#include <cstdint>

#include "cpu/simd/layout.hpp"
#include "support/catch.hpp"
#include "support/matrix_builder.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

/// Blocks at every `step`-th position, row after row.
BlockMatrix every(std::uint32_t num_rows, std::uint32_t num_columns, std::uint32_t side, std::uint32_t m,
                  std::uint32_t step, std::uint32_t max_value, std::uint64_t seed) {
  MatrixBuilder matrix(side, m, seed);
  for (std::uint32_t x = 0; x < num_rows * num_columns; x += step) {
    matrix.add_random(x / num_columns, x % num_columns, max_value);
  }
  return matrix.matrix();
}

}  // namespace

TEST_CASE("cpu: sums of rows in memory, more columns than are summed at a time") {
  for (const std::uint32_t m : {4u, 5u, 6u, 7u, 8u}) {
    const auto columns = static_cast<std::uint32_t>(cpu::MergeSizes::kMostSums / m / m);
    const std::uint32_t side = 2 * columns + 5;
    MatrixBuilder a(side, m, 3);
    for (std::uint32_t t = 0; t < 9; ++t) a.add_random(side / 2, 11 * t, 4095);
    a.add_random(side / 2, side - 1, 4095);  // meets an empty row
    const BlockMatrix b = every(100, side, side, m, 2, 4095, 4);
    check_product(a.matrix(), b);
  }
}

TEST_CASE("cpu: sums of rows in memory, one row of elements alone leaves 32 bits") {
  for (const std::uint32_t m : {4u, 5u, 6u, 7u, 8u}) {
    const std::uint32_t terms = 1128 / m + 1;  // times m and 2,047 squared: 1.1 times 2^32
    const std::uint32_t columns = 40;          // fewer would be ordered
    const std::uint32_t side = terms + columns;
    MatrixBuilder a(side, m, 7);
    MatrixBuilder b(side, m, 8);
    for (std::uint32_t t = 0; t < terms; ++t) {
      a.add_constant(0, t, 0);
      for (std::uint32_t x = 0; x < m; ++x) a.element(m - 1, x) = 2047;
      for (std::uint32_t j = 0; j < columns; ++j) b.add_constant(t, j, 2047);
    }
    check_product(a.matrix(), b.matrix());
  }
}

}  // namespace spmm::test
