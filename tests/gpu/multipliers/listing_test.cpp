// Listed panels: short rows sorted in shared memory, others as a whole; products whose rows differ in weight.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// A: a row for each weight, whose blocks make that many pairs, among them blocks that make none. B: rows of every
/// length up to max_length, in few columns, so that C blocks have several pairs, or in many. Once some blocks of B are
/// zero, once none: m = 8 is then listed and multiplied at once.
void check_weights(const std::vector<std::uint32_t>& weights, std::uint32_t max_length, std::uint32_t num_columns,
                   std::uint32_t m) {
  constexpr std::uint32_t kCopies = 4;  // rows of B of each length
  const auto nb = static_cast<std::uint32_t>(
      std::max<std::size_t>({weights.size(), num_columns, std::size_t{2} * kCopies * max_length + 1000}));
  for (const std::uint32_t least : {0u, 1u}) {
    test::MatrixBuilder a(nb, m, 1);
    test::MatrixBuilder b(nb, m, 2);
    for (std::uint32_t row = 0; row < kCopies * max_length; ++row) {
      const std::uint32_t length = row / kCopies + 1;
      const std::uint32_t step = num_columns / length;
      for (std::uint32_t x = 0; x < length; ++x) {
        b.add_constant(row, x * step + static_cast<std::uint32_t>(b.below(step)), (row + x) % 7 + least);
      }
    }
    for (std::uint32_t row = 0; row < weights.size(); ++row) {
      std::uint32_t next = 0;  // from long rows of B to short ones
      for (std::uint32_t left = weights[row]; left > 0;) {
        const std::uint32_t most = std::min(left, max_length);
        const std::uint32_t length = 1 + static_cast<std::uint32_t>(a.below(most));
        const std::uint32_t of_b = std::max(next, kCopies * (max_length - length));
        const std::uint32_t got = max_length - of_b / kCopies;
        if (of_b >= kCopies * max_length || got > left) break;
        a.add_random(row, kCopies * (got - 1) + of_b % kCopies, test::kFullRange);
        next = of_b + 1;
        left -= got;
      }
      for (std::uint32_t x = 0; x < row % 3; ++x) a.add_random(row, kCopies * max_length + x * 7, 9);  // match nothing
    }
    INFO("m " << m << ", " << weights.size() << " rows, rows of B to " << max_length << ", least element " << least);
    REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu("pair-list")) == test::oracle_multiply(a.matrix(), b.matrix())));
  }
}

std::vector<std::uint32_t> random_weights(std::size_t count, std::uint32_t most, unsigned empty_of_8,
                                          std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> weights(count);
  for (auto& weight : weights) {
    weight = random() % 8 < empty_of_8 ? 0 : 1 + static_cast<std::uint32_t>(random() % most);
  }
  return weights;
}

}  // namespace

TEST_CASE("listed rows of many weights, in few columns and in many") {
  for (const std::uint32_t most : {1u, 2u, 31u, 32u, 33u, 60u, 256u, 1024u}) {
    for (const unsigned empty_of_8 : {0u, 7u}) {
      for (const std::uint32_t num_columns : {1200u, 100'000u}) {
        const std::vector<std::uint32_t> weights = random_weights(20'000 / most + 10, most, empty_of_8, most);
        for (const std::uint32_t m : {3u, 8u}) check_weights(weights, std::min(most, 200u), num_columns, m);
      }
    }
  }
}

TEST_CASE("small listings: few pairs, full windows, very many rows without pairs") {
  for (const std::uint32_t m : {4u, 8u}) {
    check_weights({1}, 1, 1, m);
    check_weights({256, 256, 256, 256, 1, 255, 256}, 250, 2000, m);
    check_weights({128, 128, 128, 128, 0, 0, 128, 128, 128, 128}, 100, 200, m);
    // More blocks of A in one window than its threads visit one by one.
    std::vector<std::uint32_t> lonely(100'000, 0);
    lonely[70'000] = 5;
    lonely.back() = 200;
    check_weights(lonely, 40, 1000, m);
  }
}

TEST_CASE("products with rows of every weight around the limit of short rows") {
  constexpr std::uint32_t kSide = 20'000;
  for (const std::uint32_t m : {4u, 8u}) {
    for (const std::uint32_t max_row_pairs :
         {1u, kernels::kShortRowPairs - 1, kernels::kShortRowPairs, kernels::kShortRowPairs + 1, 1025u}) {
      test::MatrixBuilder a(kSide, m, max_row_pairs);
      test::MatrixBuilder b(kSide, m, max_row_pairs + 1);
      // Row `bit` of B has 2^bit blocks, so that the bits of a weight name the blocks of a row of A.
      for (std::uint32_t bit = 0; bit <= 10; ++bit) {
        for (std::uint32_t x = 0; x < 1u << bit; ++x) b.add_random(bit, x * (bit + 1) % 1531, 2047);
      }
      std::vector<std::uint32_t> weights = random_weights(40, std::min(max_row_pairs, 300u), 3, m);
      weights[7] = weights[8] = weights[30] = max_row_pairs;
      for (std::uint32_t row = 0; row < weights.size(); ++row) {
        for (std::uint32_t bit = 0; bit <= 10; ++bit) {
          if ((weights[row] >> bit & 1) != 0) a.add_random(row * 17, bit, test::kFullRange);
        }
        a.add_random(row * 17, 100 + row, 9);  // matches nothing
        for (std::uint32_t x = 1; x < 5; ++x) a.add_random(row * 17 + x, 200 + x, 9);
      }
      const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
      for (const std::string kernel : {"rows", "pair-list"}) {
        INFO("m " << m << ", max_row_pairs " << max_row_pairs << ", kernel " << kernel);
        REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu(kernel)) == expected));
      }
    }
  }
}

TEST_CASE("short rows that are counted in runs") {
  constexpr std::uint32_t kSide = 150'000;  // more rows than runs
  test::MatrixBuilder a(kSide, 4, 1);
  test::MatrixBuilder b(kSide, 4, 2);
  for (std::uint32_t x = 0; x < 200; ++x) b.add_random(0, x * 700, 2047);
  for (std::uint32_t t = 1; t < 50; ++t) b.add_random(t, t, 2047);
  for (std::uint32_t row = 0; row < kSide; ++row) {
    a.add_random(row, row % 30'000 < 4 ? 0 : 1 + row % 49,
                 2047);  // a run of long rows has more than kShortRowPairs
    if (row % 3 == 0) a.add_random(row, 50 + row % 100, 2047);
  }
  const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
  for (const std::string kernel : {"rows", "pair-list"}) {
    INFO("kernel " << kernel);
    REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu(kernel)) == expected));
  }
}

TEST_CASE("many listed panels give the bytes of one") {
  constexpr std::uint64_t kLimit = 74u << 20;  // room for the operands and about 5,000 pairs
  const BlockMatrix a = test::random_matrix(8 * 20'000, 8, 20'000, 65535, 1);
  const BlockMatrix b = test::random_matrix(8 * 20'000, 8, 20'000, 65535, 2);
  const ProductMatrix expected = test::oracle_multiply(a, b);
  for (const std::string kernel : {"rows", "pair-list"}) {
    Options options = on_gpu(kernel);
    options.memory_limit_bytes = kLimit;
    Report report;
    INFO("kernel " << kernel);
    REQUIRE((multiply(a, b, options, &report) == expected));
    CHECK(report.num_panels > 1);
    CHECK(report.peak_device_bytes <= kLimit);
    CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
  }
}

TEST_CASE("small listed products: rows around the limit of short rows") {
  for (const std::uint32_t m : {4u, 8u}) {
    test::MatrixBuilder a(1000, m, 1);
    test::MatrixBuilder b(1000, m, 2);
    for (std::uint32_t x = 0; x < kernels::kShortRowPairs; ++x) b.add_random(0, x * 3, 2047);
    b.add_random(1, 5, 2047);
    b.add_random(2, 999, 2047);
    for (const std::uint32_t row : {3u, 4u, 500u, 999u}) {
      if (row != 4) a.add_random(row, 0, test::kFullRange);
      a.add_random(row, 2, test::kFullRange);
      if (row == 500) a.add_random(row, 1, test::kFullRange);
      a.add_random(row, 700, 9);  // matches nothing
    }
    for (std::uint32_t row = 10; row < 90; ++row) a.add_random(row, 1 + row % 2, 9);
    const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
    for (const std::string kernel : {"rows", "pair-list"}) {
      INFO("m " << m << ", kernel " << kernel);
      REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu(kernel)) == expected));
    }
  }
}
