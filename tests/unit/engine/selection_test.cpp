// Elements of a result that are kept: ties, borders, and what takes no selection. The rest is the differential
// driver's.
#include <cstdint>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;

constexpr std::uint32_t kMost = 0xFFFF'FFFFu;

ProductOptions keeping(const Selection& selection) {
  ProductOptions options;
  options.backend = Backend::cpu;
  options.selection = selection;
  return options;
}

/// A product with the identity: the matrix itself. Returns its elements, block by block.
std::vector<std::uint32_t> kept_of(const BlockMatrix& matrix, const Selection& selection, Report* report = nullptr) {
  Engine engine(EngineOptions{.num_threads = 2});
  return engine.multiply(matrix, test::identity_matrix(matrix.n, matrix.m), keeping(selection), report).values;
}

}  // namespace

TEST_CASE("of equal elements the lower columns are kept, across blocks") {
  BlockMatrix matrix{.n = 4, .m = 2, .index = {{0, 1}, {0, 0}}, .values = {7, 7, 5, 9, 7, 7, 9, 5}};
  Report report;
  CHECK(kept_of(matrix, {.keep = 3}, &report) == std::vector<std::uint32_t>{7, 7, 9, 5, 7, 0, 0, 9});
  CHECK(report.dropped_elements == 2);
  CHECK(kept_of(matrix, {.keep = 1}, &report) == std::vector<std::uint32_t>{7, 0, 9, 0});
  CHECK(report.dropped_elements == 6);
  CHECK(report.c_blocks == 1);
}

TEST_CASE("what is no bound keeps everything") {
  const BlockMatrix matrix = test::random_matrix(60, 3, 150, 40'000, 3);
  Report report;
  const std::vector<std::uint32_t> all = kept_of(matrix, {});
  for (const Selection selection : {Selection{.at_least = 1}, Selection{.keep = 60}, Selection{.keep = kMost}}) {
    CHECK(kept_of(matrix, selection, &report) == all);
    CHECK(report.dropped_elements == 0);
  }
  CHECK(kept_of(matrix, {.at_least = kMost}, &report).empty());
  CHECK(report.c_blocks == 0);
}

TEST_CASE("elements at the limit that are dropped do not count as saturated") {
  test::MatrixBuilder builder(2, 2, 1);
  for (const std::uint32_t x : {0u, 1u}) builder.add_constant(x, x, 65'535);
  Report report;
  Engine engine;
  const ProductMatrix c = engine.multiply(builder.matrix(), builder.matrix(),
                                          keeping({.upper_triangle = true, .no_diagonal = true}), &report);
  CHECK(c.values == std::vector<std::uint32_t>{0, kMost, 0, 0, 0, kMost, 0, 0});
  CHECK(report.saturated_elements == 2);
  CHECK(report.dropped_elements == 4);
  CHECK(report.pairs == 2);
}

TEST_CASE("long rows are kept as a whole, and a triangle leaves half of their pairs") {
  const BlockMatrix a = test::random_matrix(3000, 1, 60'000, 9, 5);
  const ProductMatrix all = test::oracle_multiply(a, a);
  std::vector<std::uint64_t> pairs;
  for (const Selection selection : {Selection{}, Selection{.upper_triangle = true},
                                    Selection{.upper_triangle = true, .at_least = 30, .keep = 70}}) {
    const test::Selected expected = test::oracle_select(all, selection);
    Report report;
    Engine engine(EngineOptions{.num_threads = 3});
    ProductOptions options = keeping(selection);
    options.verify_full = true;
    CHECK(engine.multiply(a, a, options, &report) == expected.c);
    CHECK(report.dropped_elements == expected.num_dropped);
    pairs.push_back(report.pairs);
  }
  CHECK(pairs[1] * 10 < pairs[0] * 6);
  CHECK(pairs[1] == pairs[2]);
}

TEST_CASE("other types of elements and given blocks take no selection") {
  const BsrMatrix<std::int32_t> whole{.rows = 1, .cols = 1, .m = 1, .indptr = {0, 1}, .indices = {0}, .data = {3}};
  const BsrMatrix<std::uint16_t> a{.rows = 1, .cols = 1, .m = 1, .indptr = {0, 1}, .indices = {0}, .data = {3}};
  const BsrView<std::uint32_t> c{.rows = 1, .cols = 1, .m = 1, .indptr = a.indptr, .indices = a.indices};
  Engine engine;
  CHECK_THROWS_AS(engine.multiply(whole.view(), whole.view(), keeping({.keep = 1})), UsageError);
  CHECK_THROWS_AS(engine.multiply(a.view(), a.view(), keeping({.keep = 1}), nullptr, {.c = &c}), UsageError);
}
