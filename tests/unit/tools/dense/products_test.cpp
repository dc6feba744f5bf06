// Dense products on the host and their check: literals, exact sums, mistakes that the check must find.
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "unit/tools/dense/dense_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using dense::Comparison;
using dense::ExpectedRows;
using dense::Shape;
using dense::Type;

template <class Out, class In>
std::vector<Out> host_product(Type type, Shape shape, const std::vector<In>& a, const std::vector<In>& b) {
  std::vector<Out> c(std::size_t{shape.rows} * shape.cols, static_cast<Out>(77));
  const dense::Request request{.kernel = "host-naive", .type = type, .tile = 0, .shape = shape, .runs = 1};
  dense::multiply(request, bytes_of(a), bytes_of(b), writable_bytes_of(c));
  return c;
}

template <class Out, class In, class Finish>
void check_against_exact(Type type, Shape shape, std::int64_t low, std::int64_t high, std::uint64_t seed,
                         const Finish& finish) {
  const auto a = random_elements<In>(std::size_t{shape.rows} * shape.inner, low, high, seed);
  const auto b = random_elements<In>(std::size_t{shape.inner} * shape.cols, low, high, seed + 1000);
  std::vector<Out> expected;
  for (const Int128 sum : exact_product(shape, a, b)) expected.push_back(finish(sum));
  INFO(dense::type_name(type) << " " << shape.rows << "x" << shape.inner << "x" << shape.cols << " seed " << seed);
  CHECK((host_product<Out, In>(type, shape, a, b) == expected));
}

constexpr std::int64_t kMinInt = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

std::vector<std::uint32_t> all_rows(Shape shape) {
  return dense::choose_rows(shape, 1, UINT64_MAX);
}

}  // namespace

TEST_CASE("host-naive: the ends of every type", "[dense][host]") {
  const Shape one{.rows = 1, .inner = 2, .cols = 1};
  using Ints = std::vector<std::int32_t>;
  CHECK(host_product<std::int32_t>(Type::i32, one, Ints{INT32_MAX, 1}, Ints{1, 1}) == Ints{INT32_MIN});
  CHECK(host_product<std::int32_t>(Type::i32, one, Ints{INT32_MIN, 0}, Ints{-1, 5}) == Ints{INT32_MIN});
  CHECK(host_product<std::int32_t>(Type::i32, one, Ints{65536, 3}, Ints{65536, -4}) == Ints{-12});
  using Shorts = std::vector<std::uint16_t>;
  using Words = std::vector<std::uint32_t>;
  // 65535 * 65535 + 131070 = 2^32 - 1: the last sum that fits.
  CHECK(host_product<std::uint32_t>(Type::u16, one, Shorts{65535, 65535}, Shorts{65535, 2}) == Words{UINT32_MAX});
  CHECK(host_product<std::uint32_t>(Type::u16, one, Shorts{65535, 65535}, Shorts{65535, 1}) == Words{4294901760});
  CHECK(host_product<std::uint32_t>(Type::u16, one, Shorts{65535, 65535}, Shorts{65535, 65535}) == Words{UINT32_MAX});
}

TEST_CASE("host-naive: random shapes against exact sums", "[dense][host]") {
  const auto exact_f32 = [](Int128 sum) { return static_cast<float>(static_cast<std::int64_t>(sum)); };
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    for (int round = 0; round < 20; ++round) {
      const auto side = [&] { return static_cast<std::uint32_t>(1 + random() % 37); };
      const Shape shape{.rows = side(), .inner = side(), .cols = side()};
      check_against_exact<std::int32_t, std::int32_t>(Type::i32, shape, kMinInt, kMaxInt, seed, wrapped);
      check_against_exact<std::uint32_t, std::uint16_t>(Type::u16, shape, 0, 65535, seed, clamped);
      check_against_exact<std::uint32_t, std::uint16_t>(Type::u16, shape, 0, 15000, seed, clamped);
      check_against_exact<float, float>(Type::f32, shape, -100, 100, seed, exact_f32);
    }
  }
}

TEST_CASE("dense request: products without terms are zero", "[dense][host]") {
  for (const dense::KernelInfo& kernel : dense::kernels()) {  // needs no device
    for (const Shape shape : {Shape{5, 0, 7}, Shape{0, 4, 7}, Shape{5, 4, 0}, Shape{0, 0, 0}}) {
      const std::vector<std::uint16_t> a(std::size_t{shape.rows} * shape.inner);
      const std::vector<std::uint16_t> b(std::size_t{shape.inner} * shape.cols);
      std::vector<std::uint32_t> c(std::size_t{shape.rows} * shape.cols, 7);
      const unsigned tile = kernel.tiles.empty() ? 0 : kernel.tiles.front();
      const dense::Request request{.kernel = kernel.name, .type = Type::u16, .tile = tile, .shape = shape, .runs = 2};
      CHECK(multiply(request, bytes_of(a), bytes_of(b), writable_bytes_of(c)).run_ms == std::vector<double>{0, 0});
      CHECK(c == std::vector<std::uint32_t>(c.size(), 0));
    }
  }
}

TEST_CASE("check: figures of a case by hand", "[dense][check]") {
  const Shape shape{.rows = 3, .inner = 1, .cols = 2};
  ExpectedRows expected;
  expected.rows = {0, 2};
  expected.values = {3, 4, 0, 12};
  const std::vector<float> c = {3, 6, 100, 100, -1, 10};  // row 1 is not compared
  const Comparison found = dense::compare_rows(Type::f32, shape, expected, bytes_of(c), 1);
  CHECK(found.elements == 4);
  CHECK(found.differences == 2);  // 2 and 2; the difference of 1 is at the threshold
  CHECK(found.largest == 2);
  CHECK(dense::compare_rows(Type::f32, shape, expected, bytes_of(c), 2).differences == 0);
}

TEST_CASE("check: expected rows are exact sums", "[dense][check]") {
  for (const std::uint32_t cols : {1u, 255u, 256u, 257u, 600u}) {
    for (const std::uint32_t rows : {1u, 7u, 8u, 9u, 17u}) {
      const Shape shape{.rows = rows, .inner = 13, .cols = cols};
      INFO(rows << " rows, " << cols << " columns");
      const auto a = random_elements<std::uint16_t>(std::size_t{rows} * 13, 0, 65535, rows);
      const auto b = random_elements<std::uint16_t>(std::size_t{13} * cols, 0, 30000, cols);
      std::vector<double> expected;
      for (const Int128 sum : exact_product(shape, a, b)) expected.push_back(clamped(sum));
      CHECK(dense::expected_rows(Type::u16, shape, bytes_of(a), bytes_of(b), all_rows(shape), 2).values == expected);
    }
  }
}

TEST_CASE("check: float sums stay below the threshold, a missing term does not", "[dense][check]") {
  const Shape shape{.rows = 30, .inner = 1000, .cols = 40};
  std::vector<float> a = random_elements<float>(30'000, -10'000'000, 10'000'000, 5);
  std::vector<float> b = random_elements<float>(40'000, -10'000'000, 10'000'000, 6);
  for (float& x : a) x *= 1e-6f;
  for (float& x : b) x *= 1e-6f;
  const ExpectedRows expected = dense::expected_rows(Type::f32, shape, bytes_of(a), bytes_of(b), all_rows(shape), 2);
  const double threshold = dense::rounding_threshold(Type::f32, shape, expected);
  const Comparison right =
      dense::compare_rows(Type::f32, shape, expected, bytes_of(host_product<float>(Type::f32, shape, a, b)), threshold);
  CHECK(right.differences == 0);
  CHECK(right.largest > 0);
  // Without the last term of every sum nearly every element is wrong.
  for (std::size_t k = 999; k < a.size(); k += 1000) a[k] = 0;
  const Comparison wrong =
      dense::compare_rows(Type::f32, shape, expected, bytes_of(host_product<float>(Type::f32, shape, a, b)), threshold);
  CHECK(wrong.differences > 1000);
}

TEST_CASE("check: the threshold of exact types is 0, that of f32 follows the operands", "[dense][check]") {
  const Shape shape{.rows = 2, .inner = 4, .cols = 1};
  const std::vector<float> a = {1, 0, 0, 0, 2, 2, 2, 2};
  const std::vector<float> b = {3, 0, 4, 0};
  const ExpectedRows expected = dense::expected_rows(Type::f32, shape, bytes_of(a), bytes_of(b), all_rows(shape), 1);
  CHECK(expected.size_a == 4);
  CHECK(expected.size_b == 5);
  CHECK(dense::rounding_threshold(Type::f32, shape, expected) == 6.0 * 2 * std::ldexp(1, -24) * 4 * 5);
  for (const Type type : {Type::i32, Type::u16}) CHECK(dense::rounding_threshold(type, shape, expected) == 0);
}

TEST_CASE("check: rows are all, or as many as the budget allows, by seed", "[dense][check]") {
  const Shape shape{.rows = 1000, .inner = 10, .cols = 10};
  std::vector<std::uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0u);
  CHECK(dense::choose_rows(shape, 1, 100'000) == all);
  const auto some = dense::choose_rows(shape, 1, 99'999);
  CHECK(some.size() == 999);
  const auto few = dense::choose_rows(shape, 1, 6'400);
  CHECK(few.size() == 64);
  CHECK(few.front() == 0);
  CHECK(few.back() == 999);
  CHECK(std::is_sorted(few.begin(), few.end()));
  CHECK(std::set<std::uint32_t>(few.begin(), few.end()).size() == 64);
  CHECK(dense::choose_rows(shape, 1, 6'400) == few);
  CHECK(dense::choose_rows(shape, 2, 6'400) != few);
  CHECK(dense::choose_rows(shape, 1, 1).size() == 1);
  CHECK(dense::num_checked_rows({.rows = 8192, .inner = 8192, .cols = 8192}) == 128);
  CHECK(dense::num_checked_rows({.rows = 2048, .inner = 2048, .cols = 2048}) == 2048);
  CHECK(dense::num_checked_rows({.rows = 1, .inner = UINT32_MAX, .cols = UINT32_MAX}) == 1);
}
