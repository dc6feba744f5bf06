// Listed panels: short rows sorted in shared memory, others as a whole; products whose rows differ in weight.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

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
