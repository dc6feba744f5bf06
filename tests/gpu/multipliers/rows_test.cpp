// row-spread and row-rank: rows around the borders of rounds, units, chunks, windows and buckets, panels, sums around
// 2^32, C blocks that are zero.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
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

TEST_CASE("rows: blocks of A around those of a round, long and short rows of B, more units than are listed at once") {
  for (const std::uint32_t m : {1u, 3u, 4u, 7u, 8u, 16u, 24u}) {
    for (const std::uint32_t value : {1u, 65'534u}) {
      const std::uint32_t nb = 1200;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      const std::uint32_t lengths[] = {1, 2, 31, 33, 63, 65, 511, 512, 513, 1025};
      for (std::uint32_t row = 0; row < std::size(lengths); ++row) {
        for (std::uint32_t t = 0; t < lengths[row]; ++t) a.add_constant(row * 7, t, 1 + (t + row) % value);
      }
      for (std::uint32_t t = 0; t < nb; ++t) {
        const std::uint32_t length = t == 0 ? nb : t % 50 == 1 ? 90 : t % 3 == 0 ? 40 : t % 3;
        for (std::uint32_t x = 0; x < length; ++x) b.add_constant(t, (t * 5 + x) % nb, 1 + (t + x) % value);
      }
      INFO("m " << m << ", elements to " << value);
      check_both(a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("rows: few blocks of B, and rows of it that end with its last one") {
  for (const std::uint32_t m : kSides) {
    for (std::uint32_t of_b = 1; of_b < 14; ++of_b) {
      const std::uint32_t nb = 30;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      for (std::uint32_t i = 0; i < nb; ++i) {
        for (std::uint32_t t = 0; t < 6; ++t) a.add_random(i, (i + t * 5) % nb, 2047);
      }
      for (std::uint32_t x = 0; x < of_b; ++x) b.add_random(x / 5, 3 + x * 2, 2047);
      INFO("m " << m << ", blocks " << of_b);
      check_both(a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("rows: sums that meet 2^32 - 1, pass it, and saturate") {
  for (const std::uint32_t m : kSides) {
    const std::uint32_t nb = 500;
    for (const std::uint32_t last : {0u, 1u, 2u}) {
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      // 65535 * 65535 + 65535 + 65535 = 2^32 - 1, then 0, 1 or 2 on top; blocks of m * m in their first elements.
      const std::uint32_t factors[][2] = {{65'535, 65'535}, {65'535, 1}, {1, 65'535}, {1, last}};
      for (std::uint32_t t = 0; t < 4; ++t) {
        for (std::uint32_t i = 0; i < 3; ++i) {
          a.add_constant(i, t, 0);
          a.element(m - 1, t % m) = static_cast<std::uint16_t>(factors[t][0]);
        }
        for (std::uint32_t x = 0; x < 40; ++x) {
          b.add_constant(t, x * 11, 0);
          b.element(t % m, 0) = static_cast<std::uint16_t>(factors[t][1]);
        }
      }
      for (const char* const kernel : {"row-spread", "row-rank"}) {
        const ProductMatrix c = multiply(a.matrix(), b.matrix(), on_gpu(kernel));
        INFO(kernel << ", m " << m << ", last term " << last);
        REQUIRE((c == test::oracle_multiply(a.matrix(), b.matrix())));
        REQUIRE(c.index.size() == std::size_t{3} * 40);
        REQUIRE(c.values.at(std::size_t{m} * (m - 1)) == 4'294'967'295u);
      }
    }
  }
}

TEST_CASE("rows: all elements the largest, long rows") {
  for (const std::uint32_t m : kSpreadSides) {
    const std::uint32_t nb = 90;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    for (std::uint32_t i = 0; i < nb; ++i) {
      for (std::uint32_t t = 0; t < nb; ++t) {
        if ((i * 7 + t * 3) % 4 != 0) a.add_constant(i, t, 65'535);
        if ((i + t) % 3 != 0) b.add_constant(i, t, 65'535);
      }
    }
    INFO("m " << m);
    check_both(a.matrix(), b.matrix());
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

TEST_CASE("row-rank: rows with many pairs are found in parts and multiplied in smaller windows") {
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    const std::uint32_t nb = 3000;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    for (std::uint32_t t = 0; t < 700; ++t) {
      a.add_random(5, t * 4, 2047);  // about 3 * kRowPiecePairs pairs, rounds of all sizes of CTAs
      if (t % 9 == 0) a.add_random(6, t * 4, test::kFullRange);
    }
    for (std::uint32_t t = 0; t < 700; ++t) add_row(b, t * 4, t, 250 + t % 90, 6, 2047);
    for (std::uint32_t i = 10; i < 400; ++i) a.add_random(i, (i * 37) % nb, 9);
    INFO("m " << m);
    check("row-rank", a.matrix(), b.matrix());
  }
}

TEST_CASE("row-rank: many pairs in few columns, of which the last part of a row has none") {
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    const std::uint32_t nb = 700;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    for (std::uint32_t t = 0; t < 500; ++t) {
      for (const std::uint32_t i : {3u, 4u, 600u}) a.add_random(i, t, 2047);
      if (t % 50 == 7) a.add_random(5, t, 2047);
      for (std::uint32_t j = 0; j < 160; ++j) {  // 65,000 pairs: four parts of 64 columns
        if ((j + t) % 16 > 2) b.add_random(t, 100 + j, 2047);
      }
    }
    INFO("m " << m);
    check("row-rank", a.matrix(), b.matrix());
  }
}

TEST_CASE("row-rank: columns far apart, and in clusters that fill a bucket") {
  const std::uint32_t nb = kernels::kMaxRankedColumns;
  for (const std::uint32_t m : {1u, 4u, 7u, 16u}) {
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    const auto last = nb - 1;
    for (std::uint32_t i = 0; i < 40; ++i) a.add_random(i * 1000, i % 7, 2047);
    for (std::uint32_t i = 0; i < 9; ++i) {
      a.add_random(last - i, i % 7, test::kFullRange);
      a.add_random(last - i, (i + 3) % 7, test::kFullRange);
    }
    b.add_random(0, 0, 2047);
    b.add_random(0, last, 2047);
    b.add_random(1, last, 2047);
    add_row(b, 2, 0, 60, 1, 2047);
    add_row(b, 2, nb - 70, 70, 1, 2047);
    add_row(b, 3, 17, 300, 3000, 2047);
    add_row(b, 4, 31, 1, 1, 2047);
    add_row(b, 5, 500'000, 200, 2, 2047);
    add_row(b, 6, 500'001, 90, 5, 2047);
    INFO("m " << m);
    check("row-rank", a.matrix(), b.matrix());
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
