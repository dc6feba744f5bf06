// Every dense device kernel against sums written out here: shapes around tile borders, saturation, wrapping, empty
// sides.
#include "tools/dense/dense.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using dense::Shape;
using dense::Type;

constexpr std::uint64_t kLargest = 4'294'967'295;

/// Elements of one type, and what a product of them has to be.
template <class In, class Out>
struct Problem {
  Shape shape;
  std::vector<In> a;  // [rows, inner]
  std::vector<In> b;  // [inner, cols]
  std::vector<Out> expected;
  std::vector<double> tolerance;  // largest difference; empty = none
};

template <class T>
std::vector<T> random_values(std::size_t count, std::int64_t low, std::int64_t high, std::mt19937_64& random) {
  std::uniform_int_distribution<std::int64_t> value(low, high);
  std::vector<T> values(count);
  for (T& one : values) one = static_cast<T>(value(random));
  return values;
}

/// Sums modulo 2^64 of whole numbers: wrapped or clamped afterwards.
template <class In>
std::vector<std::uint64_t> whole_sums(Shape shape, const std::vector<In>& a, const std::vector<In>& b) {
  std::vector<std::uint64_t> sums(std::size_t{shape.rows} * shape.cols, 0);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t k = 0; k < shape.inner; ++k) {
      const auto left = static_cast<std::uint64_t>(static_cast<std::int64_t>(a[i * shape.inner + k]));
      for (std::size_t j = 0; j < shape.cols; ++j) {
        sums[i * shape.cols + j] += left * static_cast<std::uint64_t>(static_cast<std::int64_t>(b[k * shape.cols + j]));
      }
    }
  }
  return sums;
}

template <class In>
Problem<In, std::int32_t> wrapping_problem(Shape shape, std::vector<In> a, std::vector<In> b) {
  Problem<In, std::int32_t> problem{
      .shape = shape, .a = std::move(a), .b = std::move(b), .expected = {}, .tolerance = {}};
  for (const std::uint64_t sum : whole_sums(shape, problem.a, problem.b)) {
    problem.expected.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(sum & kLargest)));
  }
  return problem;
}

Problem<std::uint16_t, std::uint32_t> saturating_problem(Shape shape, std::vector<std::uint16_t> a,
                                                         std::vector<std::uint16_t> b) {
  Problem<std::uint16_t, std::uint32_t> problem{
      .shape = shape, .a = std::move(a), .b = std::move(b), .expected = {}, .tolerance = {}};
  for (const std::uint64_t sum : whole_sums(shape, problem.a, problem.b)) {
    problem.expected.push_back(static_cast<std::uint32_t>(sum < kLargest ? sum : kLargest));
  }
  return problem;
}

/// Elements in [-1, 1]; every order of summation stays within inner * epsilon * sum of |a b|.
Problem<float, float> float_problem(Shape shape, std::mt19937_64& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  Problem<float, float> problem{.shape = shape,
                                .a = std::vector<float>(std::size_t{shape.rows} * shape.inner),
                                .b = std::vector<float>(std::size_t{shape.inner} * shape.cols),
                                .expected = std::vector<float>(std::size_t{shape.rows} * shape.cols),
                                .tolerance = std::vector<double>(std::size_t{shape.rows} * shape.cols)};
  for (float& one : problem.a) one = value(random);
  for (float& one : problem.b) one = value(random);
  std::vector<double> sums(shape.cols);
  std::vector<double> sizes(shape.cols);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(sizes.begin(), sizes.end(), 0.0);
    for (std::size_t k = 0; k < shape.inner; ++k) {
      const double left = static_cast<double>(problem.a[i * shape.inner + k]);
      for (std::size_t j = 0; j < shape.cols; ++j) {
        const double term = left * static_cast<double>(problem.b[k * shape.cols + j]);
        sums[j] += term;
        sizes[j] += std::fabs(term);
      }
    }
    for (std::size_t j = 0; j < shape.cols; ++j) {
      problem.expected[i * shape.cols + j] = static_cast<float>(sums[j]);
      problem.tolerance[i * shape.cols + j] = (shape.inner + 1.0) * static_cast<double>(FLT_EPSILON) * sizes[j];
    }
  }
  return problem;
}

/// Runs a kernel. C starts as what no product gives, so that a missing element shows.
template <class In, class Out>
std::vector<Out> run(const dense::Request& request, const Problem<In, Out>& problem,
                     dense::Measurement* measurement = nullptr) {
  std::vector<Out> c(problem.expected.size());
  std::memset(c.data(), 0xFF, c.size() * sizeof(Out));
  const dense::Measurement result =
      dense::multiply(request, std::as_bytes(std::span(problem.a)), std::as_bytes(std::span(problem.b)),
                      std::as_writable_bytes(std::span(c)));
  if (measurement != nullptr) *measurement = result;
  return c;
}

template <class In, class Out>
std::size_t num_differences(const Problem<In, Out>& problem, const std::vector<Out>& c) {
  std::size_t differences = 0;
  for (std::size_t x = 0; x < c.size(); ++x) {
    if (problem.tolerance.empty()) {
      differences += c[x] != problem.expected[x] ? 1 : 0;
    } else {
      const double off = std::fabs(static_cast<double>(c[x]) - static_cast<double>(problem.expected[x]));
      differences += off <= problem.tolerance[x] ? 0 : 1;  // counts what is not a number
    }
  }
  return differences;
}

/// Every device kernel, with every tile width.
template <class In, class Out>
void check_all(Type type, const Problem<In, Out>& problem) {
  for (const dense::KernelInfo& kernel : dense::kernels()) {
    if (!kernel.on_device) continue;
    std::vector<unsigned> tiles = kernel.tiles;
    if (tiles.empty()) tiles.push_back(0);
    for (const unsigned tile : tiles) {
      const dense::Request request{
          .kernel = kernel.name, .type = type, .tile = tile, .shape = problem.shape, .runs = 0};
      const auto c = run(request, problem);
      INFO(kernel.name << ", tile " << tile << ", " << dense::type_name(type) << ", " << problem.shape.rows << " x "
                       << problem.shape.inner << " x " << problem.shape.cols);
      REQUIRE(num_differences(problem, c) == 0);
    }
  }
}

/// The whole range of every type, so that sums wrap and saturate.
void check_all_types(Shape shape, std::mt19937_64& random) {
  const std::size_t a = std::size_t{shape.rows} * shape.inner;
  const std::size_t b = std::size_t{shape.inner} * shape.cols;
  constexpr std::int64_t kLow = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kHigh = std::numeric_limits<std::int32_t>::max();
  check_all(Type::i32, wrapping_problem(shape, random_values<std::int32_t>(a, kLow, kHigh, random),
                                        random_values<std::int32_t>(b, kLow, kHigh, random)));
  check_all(Type::f32, float_problem(shape, random));
  // Small factors on one side, so that some sums saturate and some do not.
  check_all(Type::u16, saturating_problem(shape, random_values<std::uint16_t>(a, 0, 65535, random),
                                          random_values<std::uint16_t>(b, 0, 4 * 65535 / shape.inner, random)));
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
  std::mt19937_64 random(9);
  const auto a = random_values<std::int32_t>(std::size_t{shape.rows} * shape.inner, -9, 9, random);
  const auto b = random_values<std::int32_t>(std::size_t{shape.inner} * shape.cols, -9, 9, random);
  check_all(Type::i32, wrapping_problem(shape, a, b));
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
