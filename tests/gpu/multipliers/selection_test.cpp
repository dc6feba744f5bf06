// Selections of the elements of C: every kernel and side against the oracle, long rows, several panels, arrays.
#include <cstdint>
#include <string>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/memory_stream.hpp"
#include "support/on_device.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// Any selection; of elements up to a few times `scale`.
Selection random_selection(test::MatrixBuilder& random, std::uint32_t scale) {
  return {.upper_triangle = random.below(2) == 0,
          .no_diagonal = random.below(2) == 0,
          .at_least = random.below(2) == 0 ? 0 : static_cast<std::uint32_t>(random.below(scale + 1)),
          .keep = random.below(2) == 0 ? 0 : static_cast<std::uint32_t>(1 + random.below(12))};
}

std::string shown(const Selection& selection) {
  return std::string(selection.upper_triangle ? "triangle " : "") + (selection.no_diagonal ? "no diagonal " : "") +
         "at least " + std::to_string(selection.at_least) + " keep " + std::to_string(selection.keep);
}

/// Pairs that are left to a triangle.
std::uint64_t upper_pairs(const BlockMatrix& a, const BlockMatrix& b) {
  std::uint64_t pairs = 0;
  for (const BlockIndex& of_a : a.index) {
    for (const BlockIndex& of_b : b.index) pairs += of_a.j == of_b.i && of_b.j >= of_a.i ? 1 : 0;
  }
  return pairs;
}

/// From host to host, and of arrays on the device.
void check_selection(Engine& engine, const BlockMatrix& a, const BlockMatrix& b, const ProductMatrix& all,
                     ProductOptions options, const Selection& selection) {
  INFO("m " << a.m << ", " << shown(selection) << ", kernel " << options.kernel);
  options.selection = selection;
  const test::Selected expected = test::oracle_select(all, selection);
  Report report;
  REQUIRE((engine.multiply(a, b, options, &report) == expected.c));
  REQUIRE(report.saturated_elements == test::num_saturated(expected.c));
  REQUIRE(report.dropped_elements == expected.num_dropped);
  const test::DeviceMatrix<std::int32_t> on_a(a);
  const test::DeviceMatrix<std::int32_t> on_b(b);
  const DeviceBsrMatrix c = engine.multiply(on_a.view(), on_b.view(), {}, options);
  REQUIRE((test::blocks_on_host<std::int32_t>(c, a.n) == expected.c));
  REQUIRE(c.num_saturated == test::num_saturated(expected.c));
}

}  // namespace

TEST_CASE("small selections: every kernel and side") {
  Engine engine;
  std::vector<std::string> kernels = test::kernels_here();
  kernels.insert(kernels.begin(), "auto");
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 33u}) {
    test::MatrixBuilder random(1, 1, m);
    for (const bool is_gram : {true, false}) {
      const std::uint32_t scale = is_gram ? 3 : 65535;
      const BlockMatrix a = test::random_matrix(m * 12, m, 40, scale, m);
      const BlockMatrix b = is_gram ? test::transposed(a) : test::random_matrix(m * 12, m, 60, scale, m + 1);
      const ProductMatrix all = test::oracle_multiply(a, b);
      for (const std::string& kernel : kernels) {
        if (!test::takes_operands(kernel, m, 12)) continue;
        check_selection(engine, a, b, all, on_gpu(kernel), random_selection(random, is_gram ? 9 * m : ~0u - 1));
      }
    }
  }
}

TEST_CASE("a triangle multiplies no pairs below the diagonal") {
  for (const std::uint32_t m : {1u, 3u, 4u, 8u, 16u}) {
    const BlockMatrix a = test::random_matrix(m * 60, m, 500, 5, m);
    const BlockMatrix b = test::transposed(a);
    for (const char* const kernel : {"auto", "row-rank", "pair-list", "row-spread"}) {
      INFO("m " << m << ", kernel " << kernel);
      Options options = on_gpu(kernel);
      options.selection.upper_triangle = true;
      Report report;
      REQUIRE(
          (multiply(a, b, options, &report) == test::oracle_select(test::oracle_multiply(a, b), options.selection).c));
      REQUIRE(report.pairs == upper_pairs(a, b));
    }
  }
}

TEST_CASE("selections of rows with many elements, and many ties") {
  Engine engine;
  for (const std::uint32_t m : {1u, 2u, 4u}) {
    test::MatrixBuilder random(1, 1, m);
    for (const std::uint32_t scale : {1u, 40u, test::kFullRange}) {  // one, two and four digits
      test::MatrixBuilder a(6000 / m, m, m);
      test::MatrixBuilder b(6000 / m, m, m + 1);
      for (std::uint32_t t = 0; t < 30; ++t) {
        for (const std::uint32_t row : {0u, 7u, 8u, 5000 / m}) a.add_random(row, 3 * t, scale);
        a.add_random(10 + t, 3 * t, scale);
      }
      for (std::uint32_t j = 0; j < 6000 / m; ++j) {
        for (std::uint32_t t = j % 2; t < 30; t += 1 + j % 7) b.add_random(3 * t, j, scale);
      }
      const ProductMatrix all = test::oracle_multiply(a.matrix(), b.matrix());
      for (const std::uint32_t keep : {1u, 100u, 2500u, 5999u, 0u}) {
        Selection selection = random_selection(random, scale);
        selection.keep = keep;
        check_selection(engine, a.matrix(), b.matrix(), all, on_gpu(), selection);
      }
    }
  }
}

TEST_CASE("selections of several panels; a row that is cut cannot be searched") {
  const BlockMatrix a = test::random_matrix(3000, 1, 60'000, 3, 1);
  const ProductMatrix all = test::oracle_multiply(a, a);
  Options options = on_gpu("row-spread");
  options.memory_limit_bytes = 96u << 20;
  for (const Selection& selection : {Selection{.upper_triangle = true, .at_least = 5}, {.keep = 7}}) {
    options.selection = selection;
    const test::Selected expected = test::oracle_select(all, selection);
    Report report;
    REQUIRE((test::multiply_into_sink(a, a, options, &report) == expected.c));
    REQUIRE(report.num_panels > 1);
    REQUIRE(report.dropped_elements == expected.num_dropped);
  }
  test::MatrixBuilder long_row(600, 64, 1);
  test::MatrixBuilder b(600, 64, 2);
  for (std::uint32_t t = 0; t < 40; ++t) long_row.add_random(5, t, test::kFullRange);
  for (std::uint32_t j = 0; j < 600; ++j) b.add_random(j % 40, j, 30);
  options = on_gpu("two-pointer");
  options.memory_limit_bytes = 72u << 20;
  options.selection.at_least = 1'000'000;
  REQUIRE((test::multiply_into_sink(long_row.matrix(), b.matrix(), options, nullptr) ==
           test::oracle_select(test::oracle_multiply(long_row.matrix(), b.matrix()), options.selection).c));
  options.selection.keep = 3;
  CHECK_THROWS_AS(test::multiply_into_sink(long_row.matrix(), b.matrix(), options, nullptr), OutOfMemory);
}
