// row-spread and row-rank: windows, panels, sums that leave 32 bits, C blocks that are zero.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::MatrixBuilder;
using test::on_gpu;

constexpr std::uint32_t kSides[] = {1, 3, 4, 5, 8, 11, 16};
constexpr std::uint32_t kSpreadSides[] = {1, 3, 4, 5, 6, 8, 12, 16, 24, 33};

void check(const std::string& kernel, const BlockMatrix& a, const BlockMatrix& b) {
  Report report;
  INFO(kernel);
  REQUIRE((multiply(a, b, on_gpu(kernel), &report) == test::oracle_multiply(a, b)));
  CHECK(report.plan.kernel == kernel);
  CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
}

/// Both kernels, or row-spread alone if the other does not take the side.
void check_both(const BlockMatrix& a, const BlockMatrix& b) {
  check("row-spread", a, b);
  if (a.m <= kernels::kMaxRankedSide) check("row-rank", a, b);
}

/// Adds `count` blocks to a row of B, in columns that differ by `step` on average.
void add_row(MatrixBuilder& b, std::uint32_t row, std::uint32_t first, std::uint32_t count, std::uint32_t step,
             std::uint32_t max_value) {
  for (std::uint32_t t = 0; t < count; ++t) {
    b.add_random(row, first + t * step + static_cast<std::uint32_t>(b.below(step)), max_value);
  }
}

/// A matrix without a zero: no C block with pairs is zero.
BlockMatrix without_zeros(std::uint32_t nb, std::uint32_t m, std::uint32_t num_blocks, std::uint32_t largest,
                          std::uint32_t seed) {
  BlockMatrix matrix = test::random_matrix(m * nb, m, num_blocks, largest, seed);
  for (std::uint16_t& value : matrix.values) ++value;
  return matrix;
}

}  // namespace

TEST_CASE("rows: no C block can be zero, some are, all are") {
  for (const std::uint32_t m : kSpreadSides) {
    const std::size_t elements = std::size_t{m} * m;
    const std::uint32_t nb = 2600 / m + 40;
    for (const std::uint32_t largest : {200u, 60'000u}) {
      const BlockMatrix full_a = without_zeros(nb, m, 4 * nb, largest, m);
      const BlockMatrix full_b = without_zeros(nb, m, 6 * nb, largest, m + 1);
      INFO("m " << m << ", elements to " << largest);
      check_both(full_a, full_b);
      BlockMatrix a = full_a;
      for (std::size_t x = 0; x < a.index.size(); x += 3) {
        std::fill_n(a.values.begin() + static_cast<std::ptrdiff_t>(x * elements), elements, std::uint16_t{0});
      }
      check_both(a, full_b);
      BlockMatrix b = full_b;
      std::fill_n(b.values.begin() + static_cast<std::ptrdiff_t>(elements), elements, std::uint16_t{0});
      check("row-spread", full_a, b);
      std::fill(a.values.begin(), a.values.end(), std::uint16_t{0});
      check_both(a, full_b);
    }
  }
}

TEST_CASE("row-rank: rows of as many C blocks as fit a window, one less, one more, and several windows") {
  for (const std::uint32_t m : kSides) {
    const std::uint32_t slots = kernels::rank_slots(m, kernels::kRankWideCta);
    const std::uint32_t nb = 6 * slots + 100;
    for (const std::uint32_t max_value : {2047u, test::kFullRange}) {
      MatrixBuilder a(nb, m, m);
      MatrixBuilder b(nb, m, m + 1);
      const std::uint32_t lengths[] = {slots - 1, slots, slots + 1, 3 * slots, 1, 2, 31, 32, 33};
      std::uint32_t row = 0;
      for (const std::uint32_t length : lengths) {
        add_row(b, row, row % 3 == 1 ? nb - length : row, length, row % 3 == 1 ? 1 : (nb - row) / length, max_value);
        a.add_random(row, row, max_value);
        a.add_random(row, nb - 1, max_value);  // no such row of B
        a.add_random(20 + row, row, max_value);
        a.add_random(20 + row, (row + 1) % std::size(lengths), max_value);
        ++row;
      }
      for (std::uint32_t t = 0; t < row; ++t) a.add_random(50, t, max_value);
      INFO("m " << m << ", values to " << max_value);
      check("row-rank", a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("row-rank: C blocks with as many pairs as fit 32 bits, one more, many more, in rows that have more blocks") {
  for (const std::uint32_t m : kSides) {
    for (const std::uint32_t max_value : {2047u, 12'000u}) {
      const std::uint32_t fitting = 4'294'967'295u / (m * max_value * max_value);
      const std::uint32_t of_a = 3 * fitting + 700;  // several rounds
      MatrixBuilder a(of_a, m, 1);
      MatrixBuilder b(of_a, m, 2);
      for (std::uint32_t t = 0; t < of_a; ++t) {
        a.add_constant(0, t, max_value);  // one window has such C blocks
        a.add_constant(1, t, t < fitting ? max_value : 1);
        for (std::uint32_t i = 2; i < 5; ++i) {
          if (t < fitting - 1 + i - 2) a.add_constant(i, t, max_value);  // rows of as many blocks
        }
        b.add_constant(t, (t * 7) % of_a, max_value);
        const std::uint32_t pairs[] = {fitting - 1, fitting, fitting + 1, 2 * fitting, of_a};
        for (std::uint32_t x = 0; x < std::size(pairs); ++x) {
          if (t < pairs[x] && (t * 7) % of_a != x * 31) b.add_constant(t, x * 31, max_value);
        }
      }
      INFO("m " << m << ", values " << max_value);
      check("row-rank", a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("row-rank: panels of some rows, and of some columns of a row") {
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    for (const std::uint32_t zeros : {0u, 1u}) {
      const std::uint32_t nb = 300'000 / m;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      for (std::uint32_t i = 0; i < 20; ++i) a.add_constant(i, i % 3, 1 + i);
      for (std::uint32_t t = 0; t < 4; ++t) a.add_constant(25, t, 2047);
      for (std::uint32_t j = 0; j < nb; ++j) b.add_constant(j % 4, j, j % 255 + (zeros == 0 ? 1 : 0));
      const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
      const std::uint32_t side = kernels::padded_side(m);
      const plan::OperandBytes bytes = plan::operand_device_bytes(a.matrix().header(), b.matrix().header(), side);
      Options options = on_gpu("row-rank");  // room for two thirds of a row
      options.memory_limit_bytes = bytes.resident + plan::panel_c_block_bytes(m) * (nb * 2 / 3);
      Report report;
      INFO("m " << m << ", zeros " << zeros);
      REQUIRE((multiply(a.matrix(), b.matrix(), options, &report) == expected));
      CHECK(report.num_panels > 4);
      CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
    }
  }
}

TEST_CASE("row-rank: nothing to multiply, and what it refuses") {
  const BlockMatrix empty = test::random_matrix(400, 4, 0, 9, 1);
  const BlockMatrix some = test::random_matrix(400, 4, 30, 9, 2);
  CHECK(multiply(empty, some, on_gpu("row-rank")).index.empty());
  CHECK(multiply(some, empty, on_gpu("row-rank")).index.empty());
  const BlockMatrix large = test::random_matrix(17 * 20, 17, 20, 100, 1);
  CHECK_THROWS_AS(multiply(large, large, on_gpu("row-rank")), UsageError);
  const BlockMatrix wide = test::random_matrix(kernels::kMaxRankedColumns + 1, 1, 20, 100, 1);
  CHECK_THROWS_AS(multiply(wide, wide, on_gpu("row-rank")), UsageError);
}

TEST_CASE("small rows: C blocks that are zero and none, one round and several, one window, several, parts of a row") {
  for (const std::uint32_t m : {1u, 4u, 5u, 8u, 16u, 33u}) {
    INFO("m " << m);
    for (const std::uint32_t largest : {200u, 60'000u}) {
      const BlockMatrix a = without_zeros(30, m, 70, largest, m);
      BlockMatrix b = without_zeros(30, m, 90, largest, m + 1);
      check_both(a, b);
      std::fill_n(b.values.begin(), std::size_t{9} * m * m, std::uint16_t{0});
      check_both(a, b);
    }
    const std::uint32_t slots = kernels::rank_slots(std::min(m, kernels::kMaxRankedSide), kernels::kRankWideCta);
    const std::uint32_t nb = 2 * slots + 600;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    add_row(b, 0, 3, slots + 1, 1, test::kFullRange);
    add_row(b, 1, 1, 40, 2, 2047);
    for (std::uint32_t t = 2; t < 600; t += 3) add_row(b, t, t, 5, 3, test::kFullRange);
    for (std::uint32_t t = 0; t < 520; ++t) a.add_constant(2, t, 1);  // more than a round
    for (std::uint32_t i = 0; i < 60; ++i) {
      for (std::uint32_t t = 1; t < 4; ++t) a.add_random(5 + i, (i + t * t) % 9 + 1, 2047);
    }
    check_both(a.matrix(), b.matrix());
  }
}
