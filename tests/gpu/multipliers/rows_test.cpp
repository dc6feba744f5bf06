// row-spread, row-rank and small-blocks: windows, panels, C blocks that are zero.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "kernels/tuning.hpp"
#include "plan/need.hpp"
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

TEST_CASE("row-spread: long B segments in several rounds, some of them empty, some of more blocks than lanes") {
  constexpr std::uint32_t kNb = 700;
  for (const std::uint32_t m : {5u, 8u}) {
    for (const std::uint32_t max_value : {200u, test::kFullRange}) {
      MatrixBuilder a(kNb, m, m);
      MatrixBuilder b(kNb, m, m + 1);
      for (std::uint32_t t = 0; t < 600; ++t) {
        if (t % 11 != 5) add_row(b, t, t % 7, t % 50 == 0 ? 150 : 22, 4, max_value);
      }
      for (const std::uint32_t i : {2u, 3u, 400u}) {
        for (std::uint32_t t = 0; t < 620; ++t) a.add_random(i, t, max_value);
      }
      INFO("m " << m << ", values to " << max_value);
      check("row-spread", a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("row-rank, small-blocks: panels of some rows, and of some columns of a row") {
  for (const auto& [kernel, m] :
       {std::pair("row-rank", 1u), {"row-rank", 8u}, {"small-blocks", 1u}, {"small-blocks", 3u}}) {
    const bool is_ranked = kernel == std::string("row-rank");
    const std::uint32_t nb = 300'000 / (is_ranked ? m : 1);
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    for (std::uint32_t i = 0; i < 20; ++i) a.add_constant(i, i % 3, 1 + i);
    for (std::uint32_t t = 0; t < 4; ++t) a.add_constant(25, t, 2047);
    for (std::uint32_t j = 0; j < nb; ++j) b.add_constant(j % 4, j, j % 255);
    Options options = on_gpu(kernel);  // room for two thirds of a row
    const std::uint64_t operands =
        plan::operand_device_bytes(a.matrix().header(), b.matrix().header(), kernels::padded_side(m)).resident;
    options.memory_limit_bytes = (is_ranked ? operands : (70u << 20) + std::uint64_t{nb} * 16 * m * m) +
                                 plan::panel_c_block_bytes(m) * (nb * 2 / 3);
    Report report;
    INFO(kernel << ", m " << m);
    REQUIRE((multiply(a.matrix(), b.matrix(), options, &report) == test::oracle_multiply(a.matrix(), b.matrix())));
    CHECK(report.num_panels > 4);
    CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
  }
}

TEST_CASE("row-rank: a row that is cut by columns, where each part has few C blocks of many pairs") {
  constexpr std::uint32_t kNb = 30'000;
  constexpr std::uint32_t kStep = 1000;  // between block columns with blocks
  for (const std::uint32_t m : {1u, 8u, 11u}) {
    MatrixBuilder a(kNb, m, 1);
    MatrixBuilder b(kNb, m, 2);
    for (std::uint32_t k = 0; k < 1200; ++k) {
      a.add_constant(7, k, 1 + k % 5);
      for (std::uint32_t j = k % 3; j < kNb / kStep; ++j) b.add_constant(k, j * kStep, 1 + j);
    }
    Options options = on_gpu("row-rank");  // room for two thirds of a row
    options.memory_limit_bytes =
        plan::operand_device_bytes(a.matrix().header(), b.matrix().header(), kernels::padded_side(m)).resident +
        plan::panel_c_block_bytes(m) * (kNb * 2 / 3);
    Report report;
    INFO("m " << m);
    REQUIRE((multiply(a.matrix(), b.matrix(), options, &report) == test::oracle_multiply(a.matrix(), b.matrix())));
    CHECK(report.num_panels == 2);
  }
}

TEST_CASE("sides and grids that row-rank and small-blocks refuse") {
  for (const auto& [kernel, m, n] : {std::tuple("row-rank", 17u, 340u),
                                     {"row-rank", 1u, kernels::kMaxRankedColumns + 1},
                                     {"small-blocks", 5u, 50u}}) {
    const BlockMatrix matrix = test::random_matrix(n, m, 20, 100, 1);
    CHECK_THROWS_AS(multiply(matrix, matrix, on_gpu(kernel)), UsageError);
  }
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
