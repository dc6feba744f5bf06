// Products of host arrays of all number types by an engine: rounding, long rows, limits, errors. Their bits are the
// differential driver's.
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/chain_cases.hpp"
#include "support/files.hpp"

namespace spmm::test {
namespace {

/// 2 x 2 blocks of side 2, one is missing.
template <class T>
BsrMatrix<T> tiny() {
  return {.rows = 4, .cols = 4, .m = 2, .indptr = {0, 2, 3}, .indices = {0, 1, 1}, .data = std::vector<T>(12, T{1})};
}

}  // namespace

TEST_CASE("bits do not depend on how the caller rounds") {
  for (const ChainValueKind kind : {ChainValueKind::special, ChainValueKind::wide}) {
    Random random(2);
    const auto matrix = random_chain_matrix<double>(random_pattern(40, 40, 0.3, false, random), 4, kind, random);
    const BsrMatrix<double> a = arrays_of(matrix, order_of(matrix.at, false, random));
    for (const int rounding : {FE_TONEAREST, FE_UPWARD}) {
      std::fesetround(rounding);
      Engine engine;  // its threads begin with this rounding
      const auto c = engine.multiply(a.view(), a.view());
      const bool is_kept = std::fegetround() == rounding;
      std::fesetround(FE_TONEAREST);
      CHECK(is_kept);
      CHECK(is_product(c, matrix, matrix));
    }
  }
}

TEST_CASE("rows of C that are larger than a buffer, in parts of columns") {
  Random random(3);
  for (const std::uint32_t m : {1u, 16u}) {
    const std::uint32_t cols = 250'000 / (m * m) + 3;
    const auto a =
        random_chain_matrix<double>(random_pattern(5, 6, 0.6, false, random), m, ChainValueKind::wide, random);
    const auto b =
        random_chain_matrix<double>(random_pattern(6, cols, 0.4, false, random), m, ChainValueKind::wide, random);
    const BsrMatrix<double> given_a = arrays_of(a, order_of(a.at, false, random));
    const BsrMatrix<double> given_b = arrays_of(b, order_of(b.at, m == 1, random));
    const auto wanted = chain_oracle(a, b);
    const BsrMatrix<double> old{.rows = 5 * m,
                                .cols = std::uint64_t{cols} * m,
                                .m = m,
                                .indptr = {wanted.at.ptr.begin(), wanted.at.ptr.end()},
                                .indices = {wanted.at.col.begin(), wanted.at.col.end()}};
    const BsrView<double> view = old.view();
    ProductOptions options;
    for (options.max_threads = 1; options.max_threads <= 8; options.max_threads += 7) {
      Engine engine;
      const auto c = engine.multiply(given_a.view(), given_b.view(), options);
      CHECK(has_bits(c, wanted));
      CHECK(engine.multiply(given_a.view(), given_b.view(), options, nullptr, {.c = &view}) == c);
      const std::uint64_t result_bytes = 8 * (c.data.size() + c.indices.size());
      const std::uint64_t operand_bytes = 12 * given_b.indices.size();
      EngineOptions tight;  // what fits is decided by the blocks that C has, not by the pairs, which are more
      tight.memory_limit_bytes = result_bytes + operand_bytes + (12u << 20);
      Engine limited(tight);
      CHECK(limited.multiply(given_a.view(), given_b.view(), options) == c);
      tight.memory_limit_bytes = result_bytes;
      Engine small(tight);
      CHECK_THROWS_AS(small.multiply(given_a.view(), given_b.view(), options), OutOfMemory);
    }
  }
}

TEST_CASE("memory goes by the blocks, however many columns there are") {
  constexpr std::int64_t kLast = 4'000'000'000;
  EngineOptions options;
  options.memory_limit_bytes = 1u << 20;
  Engine engine(options);
  const BsrMatrix<float> a{.rows = 1, .cols = 2, .m = 1, .indptr = {0, 2}, .indices = {0, 1}, .data = {2, 3}};
  const BsrMatrix<float> b{.rows = 2,
                           .cols = std::uint64_t{kLast} + 1,
                           .m = 1,
                           .indptr = {0, 2, 4},
                           .indices = {5, kLast, 0, kLast},
                           .data = {1, 10, 100, 1000}};
  const auto c = engine.multiply(a.view(), b.view());
  CHECK(c.indices == std::vector<std::int64_t>{0, 5, kLast});
  CHECK(c.data == std::vector<float>{300, 2, 3020});
  BsrMatrix<float> given = c;
  given.indices = {0, 4, kLast};
  const BsrView<float> view = given.view();
  CHECK(engine.multiply(a.view(), b.view(), {}, nullptr, {.c = &view, .is_mask = true}).data ==
        std::vector<float>{300, 0, 3020});
  CHECK(has(message_of<ShapeError>([&] { engine.multiply(a.view(), b.view(), {}, nullptr, {.c = &view}); }),
            "block row 0, block column 5"));
}

TEST_CASE("a row of C stops when it is cancelled") {  // a second or more would pass until it ends
  constexpr std::int64_t kRows = 1000;
  constexpr std::int64_t kColumns = 100;
  BsrMatrix<float> a{.rows = 32, .cols = 32 * kRows, .m = 32, .indptr = {0, kRows}};
  BsrMatrix<float> b{.rows = 32 * kRows, .cols = 32 * kColumns, .m = 32, .indptr = {0}};
  for (std::int64_t k = 0; k < kRows; ++k) {
    a.indices.push_back(k);
    b.indptr.push_back((k + 1) * kColumns);
    for (std::int64_t j = 0; j < kColumns; ++j) b.indices.push_back(j);
  }
  a.data.resize(a.indices.size() * 1024);
  b.data.resize(b.indices.size() * 1024);
  std::atomic<bool> cancel{false};
  std::jthread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel = true;
  });
  ProductOptions options;
  options.cancel = &cancel;
  Engine engine;
  CHECK_THROWS_AS(engine.multiply(a.view(), b.view(), options), Interrupted);
}

TEST_CASE("some block rows of a product of floats") {
  Engine engine;
  Random random(1);
  const ChainPattern at = random_pattern(20, 20, 0.3, false, random);
  const auto matrix = random_chain_matrix<float>(at, 3, ChainValueKind::wide, random);
  const BsrMatrix<float> a = arrays_of(matrix, order_of(at, true, random));
  const auto whole = engine.multiply(a.view(), a.view());
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (backend == Backend::cuda && !has_cuda_device()) continue;
    ProductOptions options;
    options.backend = backend;
    options.rows = {.first = 5, .end = 11};
    const auto some = engine.multiply(a.view(), a.view(), options);
    const auto begin = static_cast<std::size_t>(whole.indptr[5]);
    const auto end = static_cast<std::size_t>(whole.indptr[11]);
    CHECK(some.indptr[5] == 0);
    CHECK(some.indptr.back() == static_cast<std::int64_t>(end - begin));
    const std::vector<float> wanted(whole.data.begin() + static_cast<std::ptrdiff_t>(begin * 9),
                                    whole.data.begin() + static_cast<std::ptrdiff_t>(end * 9));
    CHECK(some.data == wanted);
  }
}

TEST_CASE("C's blocks are given: what is refused, and what is read") {
  Engine engine;
  const BsrMatrix<double> a = tiny<double>();  // A * A has the blocks of A
  BsrMatrix<double> c = tiny<double>();
  const auto product = [&](Accumulation<double> onto, const ProductOptions& options = {}) {
    const BsrView<double> view = c.view();
    onto.c = &view;
    return engine.multiply(a.view(), a.view(), options, nullptr, onto);
  };
  const BsrMatrix<double> plain = engine.multiply(a.view(), a.view());
  CHECK(product({}) == plain);
  CHECK(product({.beta = 1}).data.front() == plain.data.front() + 1);
  Report report;
  const auto scaled = engine.multiply(a.view(), a.view(), {}, &report, {.alpha = 0.5});
  CHECK(scaled.data.back() == plain.data.back() / 2);
  SECTION("data are not read if beta is 0") {
    c.data.clear();
    CHECK(product({}) == plain);
    CHECK_THROWS_AS(product({.beta = 1}), UsageError);
  }
  SECTION("a block is missing") {
    c.indptr = {0, 1, 2};
    c.indices = {0, 1};
    c.data.resize(8);
    CHECK(has(message_of<ShapeError>([&] { product({.beta = 2}); }), "block row 0, block column 1"));
    CHECK(product({.is_mask = true}).indices == c.indices);
  }
  SECTION("an order that does not ascend") {
    c.indices = {1, 0, 1};
    CHECK_THROWS_AS(product({}), FormatError);
  }
  SECTION("another size") {
    c.cols = 6;
    CHECK_THROWS_AS(product({}), ShapeError);
  }
  SECTION("some rows") {
    ProductOptions options;
    options.rows = {.first = 0, .end = 1};
    CHECK_THROWS_AS(product({}, options), UsageError);
  }
  SECTION("saturating sums") {
    const BsrMatrix<std::uint16_t> of_a = tiny<std::uint16_t>();
    const BsrView<std::uint32_t> view{.rows = 4, .cols = 4, .m = 2, .indptr = c.indptr, .indices = c.indices};
    CHECK_THROWS_AS(engine.multiply(of_a.view(), of_a.view(), {}, nullptr, {.c = &view, .alpha = 2}), UsageError);
    ProductOptions options;
    options.pattern = "p.bin";  // is for files
    CHECK_THROWS_AS(engine.multiply(of_a.view(), of_a.view(), options), UsageError);
  }
  SECTION("nothing to add") {
    CHECK_THROWS_AS(engine.multiply(a.view(), a.view(), {}, nullptr, {.beta = 1}), UsageError);
  }
}

TEST_CASE("host arrays that are refused, whatever their type") {
  EngineOptions engine_options;
  engine_options.memory_limit_bytes = 200;
  Engine small(engine_options);
  Engine engine;
  BsrMatrix<double> a = tiny<double>();
  const BsrMatrix<double> b = tiny<double>();
  ProductOptions options;
  SECTION("the result is larger than the limit") {
    CHECK_THROWS_AS(small.multiply(a.view(), b.view()), OutOfMemory);
  }
  SECTION("a block twice") {
    a.indices = {1, 1, 0};
    CHECK_THROWS_AS(engine.multiply(a.view(), b.view()), FormatError);
  }
  SECTION("a block column out of range") {
    a.indices = {0, 2, 1};
    CHECK_THROWS_AS(engine.multiply(a.view(), b.view()), FormatError);
  }
  SECTION("sides") {
    a.cols = 6;
    CHECK_THROWS_AS(engine.multiply(a.view(), b.view()), ShapeError);
  }
  SECTION("a named kernel") {
    options.kernel = "row-merge";
    CHECK_THROWS_AS(engine.multiply(a.view(), b.view(), options), UsageError);
  }
  SECTION("transposes") {
    options.transpose_a = true;
    CHECK_THROWS_AS(engine.multiply(a.view(), b.view(), options), UsageError);
  }
  SECTION("a product that is cancelled") {
    const std::atomic<bool> cancel{true};
    options.cancel = &cancel;
    CHECK_THROWS_AS(engine.multiply(a.view(), b.view(), options), Interrupted);
  }
}

}  // namespace spmm::test
