// Every dense device kernel against sums written out here: shapes around tile borders, saturation, wrapping, empty
// sides.
#include "tools/dense/dense.hpp"

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "unit/tools/dense/dense_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using dense::Shape;
using dense::Type;

/// Elements of one type, and what a product of them has to be.
template <class In, class Out>
struct Problem {
  Shape shape;
  std::vector<In> a;  // [rows, inner]
  std::vector<In> b;  // [inner, cols]
  std::vector<Out> expected{};
  std::vector<double> tolerance{};  // largest difference; empty = none
};

/// Values: finish = how an exact sum becomes an element.
template <class Out, class In, class Finish>
Problem<In, Out> exact_problem(Shape shape, std::vector<In> a, std::vector<In> b, const Finish& finish) {
  Problem<In, Out> problem{.shape = shape, .a = std::move(a), .b = std::move(b)};
  for (const Int128 sum : exact_product(shape, problem.a, problem.b)) problem.expected.push_back(finish(sum));
  return problem;
}

Problem<std::uint16_t, std::uint32_t> saturating_problem(Shape shape, std::vector<std::uint16_t> a,
                                                         std::vector<std::uint16_t> b) {
  return exact_problem<std::uint32_t>(shape, std::move(a), std::move(b), clamped);
}

/// Elements in [-1, 1]; every order of summation stays within inner * epsilon * sum of |a b|.
Problem<float, float> float_problem(Shape shape, std::mt19937_64& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  Problem<float, float> problem{.shape = shape,
                                .a = std::vector<float>(std::size_t{shape.rows} * shape.inner),
                                .b = std::vector<float>(std::size_t{shape.inner} * shape.cols)};
  for (float& one : problem.a) one = value(random);
  for (float& one : problem.b) one = value(random);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.cols; ++j) {
      double sum = 0;
      double size = 0;
      for (std::size_t k = 0; k < shape.inner; ++k) {
        const double term =
            static_cast<double>(problem.a[i * shape.inner + k]) * static_cast<double>(problem.b[k * shape.cols + j]);
        sum += term;
        size += std::fabs(term);
      }
      problem.expected.push_back(static_cast<float>(sum));
      problem.tolerance.push_back((shape.inner + 1.0) * static_cast<double>(FLT_EPSILON) * size);
    }
  }
  return problem;
}

/// Every device kernel, with every tile width. C starts as what no product gives, so that a missing element shows.
template <class In, class Out>
void check_all(Type type, const Problem<In, Out>& problem) {
  for (const dense::KernelInfo& kernel : dense::kernels()) {
    if (!kernel.on_device) continue;
    for (const unsigned tile : kernel.tiles.empty() ? std::vector<unsigned>{0} : kernel.tiles) {
      std::vector<Out> c(problem.expected.size());
      std::memset(c.data(), 0xFF, c.size() * sizeof(Out));
      dense::multiply({.kernel = kernel.name, .type = type, .tile = tile, .shape = problem.shape, .runs = 0},
                      bytes_of(problem.a), bytes_of(problem.b), writable_bytes_of(c));
      std::size_t differences = 0;
      for (std::size_t x = 0; x < c.size(); ++x) {
        const double off = std::fabs(static_cast<double>(c[x]) - static_cast<double>(problem.expected[x]));
        const double most = problem.tolerance.empty() ? 0 : problem.tolerance[x];
        differences += off <= most ? 0 : 1;  // counts what is not a number
      }
      INFO(kernel.name << ", tile " << tile << ", " << dense::type_name(type) << ", " << problem.shape.rows << " x "
                       << problem.shape.inner << " x " << problem.shape.cols);
      REQUIRE(differences == 0);
    }
  }
}

/// The whole range of every type, so that sums wrap and saturate.
void check_all_types(Shape shape, std::mt19937_64& random) {
  const std::size_t a = std::size_t{shape.rows} * shape.inner;
  const std::size_t b = std::size_t{shape.inner} * shape.cols;
  check_all(Type::i32,
            exact_problem<std::int32_t>(shape, random_elements<std::int32_t>(a, INT32_MIN, INT32_MAX, random()),
                                        random_elements<std::int32_t>(b, INT32_MIN, INT32_MAX, random()), wrapped));
  check_all(Type::f32, float_problem(shape, random));
  // Small factors on one side, so that some sums saturate and some do not.
  const std::int64_t small = std::min<std::int64_t>(65535, 4 * 65535 / shape.inner);
  check_all(Type::u16, saturating_problem(shape, random_elements<std::uint16_t>(a, 0, 65535, random()),
                                          random_elements<std::uint16_t>(b, 0, small, random())));
}

}  // namespace

TEST_CASE("dense kernels on random shapes from 1 to 300, primes and tile borders among them", "[dense]") {
  constexpr std::uint32_t kSides[] = {1,  2,  7,  8,   9,   13,  15,  16,  17,  31,  32,  33,  61,  63,
                                      64, 65, 97, 113, 127, 128, 129, 251, 255, 256, 257, 281, 299, 300};
  std::mt19937_64 random(7);
  const auto side = [&]() -> std::uint32_t {
    return random() % 4 == 0 ? static_cast<std::uint32_t>(random() % 300 + 1) : kSides[random() % std::size(kSides)];
  };
  for (const std::uint32_t one : kSides) {  // each of them once on each place
    check_all_types({.rows = one, .inner = side(), .cols = side()}, random);
    if (one % 2 == 0) check_all_types({.rows = side(), .inner = one, .cols = side()}, random);
    if (one % 2 == 1) check_all_types({.rows = side(), .inner = side(), .cols = one}, random);
  }
  // Whole chunks with cut tiles, and the reverse.
  for (const Shape shape : {Shape{130, 20, 132}, Shape{4, 4, 4}, Shape{260, 36, 124}, Shape{128, 129, 128}}) {
    check_all_types(shape, random);
  }
}

TEST_CASE("dense kernels with more rows of tiles than a second grid dimension holds", "[dense]") {
  const Shape shape{.rows = 65'536 * 8 + 100, .inner = 3, .cols = 2};
  const auto a = random_elements<std::int32_t>(std::size_t{shape.rows} * shape.inner, -9, 9, 9);
  const auto b = random_elements<std::int32_t>(std::size_t{shape.inner} * shape.cols, -9, 9, 10);
  check_all(Type::i32, exact_problem<std::int32_t>(shape, a, b, wrapped));
}

TEST_CASE("dense kernels saturate at 2^32 - 1 and not before", "[dense]") {
  // 65535 * 65535 + 65535 * x = 2^32 - 1 for x = 2.
  const Shape shape{.rows = 1, .inner = 2, .cols = 3};
  const auto edge = saturating_problem(shape, {65535, 65535}, {65535, 65535, 65535, 1, 2, 3});
  REQUIRE(edge.expected == std::vector<std::uint32_t>{4'294'901'760u, 4'294'967'295u, 4'294'967'295u});
  check_all(Type::u16, edge);
  // 16 * 16383^2 + 16383 * 32 + x = 2^32 - 1 for x = 15.
  std::vector<std::uint16_t> left(18, 16'383);
  left.back() = 1;
  std::vector<std::uint16_t> right(54, 16'383);
  for (std::uint16_t column = 0; column < 3; ++column) {
    right[16 * 3 + column] = 32;
    right[17 * 3 + column] = static_cast<std::uint16_t>(14 + column);
  }
  const auto narrow = saturating_problem({.rows = 1, .inner = 18, .cols = 3}, left, right);
  REQUIRE(narrow.expected == std::vector<std::uint32_t>{4'294'967'294u, 4'294'967'295u, 4'294'967'295u});
  check_all(Type::u16, narrow);
  for (const std::uint32_t inner : {1u, 2u, 3u, 130u, 66'000u}) {
    const Shape full{.rows = 33, .inner = inner, .cols = 65};
    for (const std::uint16_t value : {std::uint16_t{65535}, std::uint16_t{16'383}, std::uint16_t{250}}) {
      check_all(Type::u16, saturating_problem(full, std::vector<std::uint16_t>(std::size_t{33} * inner, value),
                                              std::vector<std::uint16_t>(std::size_t{65} * inner, value)));
    }
  }
}
