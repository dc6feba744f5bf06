// The check of dense products: figures by hand, the choice of rows, and mistakes that it must find.
#include "tools/dense/dense_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "tools/dense/dense_multiply.hpp"
#include "unit/dense/dense_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using dense::Comparison;
using dense::ExpectedRows;
using dense::Shape;
using dense::Type;

const float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::vector<std::uint32_t> all_rows(Shape shape) {
  return dense::choose_rows(shape, 1, UINT64_MAX);
}

void multiply_naive(Shape shape, const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  const dense::Request request{.kernel = "host-naive", .type = Type::f32, .tile = 0, .shape = shape, .runs = 1};
  dense::multiply(request, bytes_of(a), bytes_of(b), writable_bytes_of(c));
}

}  // namespace

TEST_CASE("check: figures of a case by hand", "[dense][check]") {
  const Shape shape{.rows = 3, .inner = 1, .cols = 2};
  ExpectedRows expected;
  expected.rows = {0, 2};
  expected.values = {3, 4, 0, 12};
  const std::vector<float> c = {3, 6, 100, 100, -1, 10};  // row 1 is not compared
  const Comparison found = dense::compare_rows(Type::f32, shape, expected, bytes_of(c), 1, 2);
  CHECK(found.elements == 4);
  CHECK(found.differences == 2);  // 2 and 2; the difference of 1 is at the threshold
  CHECK(found.largest == 2);
  CHECK(found.mean_square == 9.0 / 4);
  CHECK(dense::compare_rows(Type::f32, shape, expected, bytes_of(c), 2, 1).differences == 0);
}

TEST_CASE("check: an equal result, also of zeros, has no difference", "[dense][check]") {
  const Shape shape{.rows = 1, .inner = 1, .cols = 2};
  ExpectedRows expected;
  expected.rows = {0};
  expected.values = {0, 0};
  const Comparison found =
      dense::compare_rows(Type::u16, shape, expected, bytes_of(std::vector<std::uint32_t>{0, 0}), 0, 1);
  CHECK(found.differences == 0);
  CHECK(found.largest == 0);
  CHECK(found.mean_square == 0);
}

TEST_CASE("check: what is not a number is a difference", "[dense][check]") {
  const Shape shape{.rows = 1, .inner = 1, .cols = 2};
  ExpectedRows expected;
  expected.rows = {0};
  expected.values = {1, 1};
  const std::vector<float> c = {kNotANumber, 1};
  const Comparison found = dense::compare_rows(Type::f32, shape, expected, bytes_of(c), 1e30, 1);
  CHECK(found.differences == 1);
  CHECK(std::isinf(found.largest));
}

TEST_CASE("check: elements of each result type are read as such", "[dense][check]") {
  const Shape shape{.rows = 1, .inner = 1, .cols = 1};
  ExpectedRows expected;
  expected.rows = {0};
  const std::vector<std::uint32_t> c = {0xFFFF'FFFF};
  expected.values = {4294967295.0};
  CHECK(dense::compare_rows(Type::u16, shape, expected, bytes_of(c), 0, 1).differences == 0);
  CHECK(dense::compare_rows(Type::i32, shape, expected, bytes_of(c), 0, 1).largest == 4294967296.0);
  expected.values = {-1};
  CHECK(dense::compare_rows(Type::i32, shape, expected, bytes_of(c), 0, 1).differences == 0);
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

TEST_CASE("check: chosen rows of wrapping products", "[dense][check]") {
  const Shape shape{.rows = 20, .inner = 9, .cols = 11};
  const std::vector<std::uint32_t> rows = {0, 3, 4, 11, 19};
  const auto a = random_elements<std::int32_t>(180, INT32_MIN, INT32_MAX, 1);
  const auto b = random_elements<std::int32_t>(99, INT32_MIN, INT32_MAX, 2);
  std::vector<double> expected;
  const auto exact = exact_product(shape, a, b);
  for (const std::size_t row : rows) {
    for (std::size_t col = 0; col < 11; ++col) expected.push_back(wrapped(exact[row * 11 + col]));
  }
  CHECK(dense::expected_rows(Type::i32, shape, bytes_of(a), bytes_of(b), rows, 2).values == expected);
}

TEST_CASE("check: float sums stay below the threshold, a missing term does not", "[dense][check]") {
  const Shape shape{.rows = 30, .inner = 1000, .cols = 40};
  std::vector<float> a = random_elements<float>(30'000, -10'000'000, 10'000'000, 5);
  std::vector<float> b = random_elements<float>(40'000, -10'000'000, 10'000'000, 6);
  for (float& x : a) x *= 1e-6f;
  for (float& x : b) x *= 1e-6f;
  const ExpectedRows expected = dense::expected_rows(Type::f32, shape, bytes_of(a), bytes_of(b), all_rows(shape), 2);
  const double threshold = dense::rounding_threshold(Type::f32, shape, expected);
  std::vector<float> c(1200);
  multiply_naive(shape, a, b, c);
  const Comparison right = dense::compare_rows(Type::f32, shape, expected, bytes_of(c), threshold, 2);
  CHECK(right.differences == 0);
  CHECK(right.largest > 0);
  const auto& values = expected.values;
  const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  CHECK(right.mean_square < 1e-10 * square / static_cast<double>(values.size()));
  // Without the last term of every sum nearly every element is wrong.
  for (std::size_t k = 999; k < a.size(); k += 1000) a[k] = 0;
  multiply_naive(shape, a, b, c);
  const Comparison wrong = dense::compare_rows(Type::f32, shape, expected, bytes_of(c), threshold, 2);
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
