#include "tools/dense/dense_check.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "base/run/parallel.hpp"
#include "tools/dense/dense_elements.hpp"

namespace spmm::dense {
namespace {

constexpr double kUnitRoundoff = 0x1p-24;  // of float
constexpr double kConfidence = 6;          // no element of 10^8 is expected beyond it

/// One row of the product.
template <class E>
void compute_row(Shape shape, std::span<const std::byte> a, std::span<const std::byte> b, std::size_t row,
                 std::span<double> out) {
  using In = typename E::In;
  using Wide = typename E::Wide;
  std::vector<Wide> sums(shape.cols);
  for (std::size_t k = 0; k < shape.inner; ++k) {
    const auto factor = static_cast<Wide>(load<In>(a, row * shape.inner + k));
    for (std::size_t j = 0; j < sums.size(); ++j) {
      sums[j] += factor * static_cast<Wide>(load<In>(b, k * shape.cols + j));
    }
  }
  for (std::size_t j = 0; j < sums.size(); ++j) out[j] = static_cast<double>(finish(sums[j]));
}

/// Norms of rows of A and columns of B, for the threshold of f32.
void measure_operands(Shape shape, std::span<const std::byte> a, std::span<const std::byte> b, ExpectedRows& expected) {
  for (const std::size_t row : expected.rows) {
    double square = 0;
    for (std::size_t k = 0; k < shape.inner; ++k) square += std::pow(load<float>(a, row * shape.inner + k), 2);
    expected.size_a = std::max(expected.size_a, std::sqrt(square));
  }
  std::vector<double> squares(shape.cols);
  for (std::size_t k = 0; k < shape.inner; ++k) {
    for (std::size_t j = 0; j < shape.cols; ++j) squares[j] += std::pow(load<float>(b, k * shape.cols + j), 2);
  }
  for (const double square : squares) expected.size_b = std::max(expected.size_b, std::sqrt(square));
}

template <class Out>
Comparison compare_row(std::span<const std::byte> c, std::size_t start, std::span<const double> expected,
                       double threshold) {
  Comparison row{.elements = expected.size()};
  for (std::size_t j = 0; j < expected.size(); ++j) {
    const double difference = std::abs(static_cast<double>(load<Out>(c, start + j)) - expected[j]);
    row.differences += difference <= threshold ? 0u : 1u;  // not a number is a difference as well
    row.largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(row.largest, difference);
    row.mean_square += difference * difference / static_cast<double>(expected.size());
  }
  return row;
}

}  // namespace

std::uint32_t num_checked_rows(Shape shape, std::uint64_t budget) {
  const std::uint64_t row_cost = std::max<std::uint64_t>(1, std::uint64_t{shape.inner} * shape.cols);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max<std::uint64_t>(1, budget / row_cost), shape.rows));
}

std::vector<std::uint32_t> choose_rows(Shape shape, std::uint64_t seed, std::uint64_t budget) {
  std::vector<std::uint32_t> all(shape.rows);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<std::uint32_t> chosen;
  std::sample(all.begin(), all.end(), std::back_inserter(chosen), num_checked_rows(shape, budget),
              std::mt19937_64(seed));  // keeps the order
  if (chosen.size() >= 2) {
    chosen.front() = 0;
    chosen.back() = shape.rows - 1;
  }
  return chosen;
}

ExpectedRows expected_rows(Type type, Shape shape, std::span<const std::byte> a, std::span<const std::byte> b,
                           std::vector<std::uint32_t> rows, unsigned num_threads) {
  ExpectedRows expected;
  expected.rows = std::move(rows);
  expected.values.resize(expected.rows.size() * shape.cols);
  for_elements(type, [&]<class E>(E) {
    parallel_for(num_threads, expected.rows.size(), 1, [&](std::uint64_t r, std::uint64_t) {
      compute_row<E>(shape, a, b, expected.rows[r], std::span(expected.values).subspan(r * shape.cols, shape.cols));
    });
  });
  if (type == Type::f32) measure_operands(shape, a, b, expected);
  return expected;
}

double rounding_threshold(Type type, Shape shape, const ExpectedRows& expected) {
  if (type != Type::f32) return 0;
  return kConfidence * std::sqrt(static_cast<double>(shape.inner)) * kUnitRoundoff * expected.size_a * expected.size_b;
}

Comparison compare_rows(Type type, Shape shape, const ExpectedRows& expected, std::span<const std::byte> c,
                        double threshold, unsigned num_threads) {
  const std::size_t cols = shape.cols;
  std::vector<Comparison> rows(expected.rows.size());
  for_elements(type, [&]<class E>(E) {
    parallel_for(num_threads, rows.size(), 1, [&](std::uint64_t r, std::uint64_t) {
      const auto values = std::span(expected.values).subspan(r * cols, cols);
      rows[r] = compare_row<typename E::Out>(c, expected.rows[r] * cols, values, threshold);
    });
  });
  Comparison total;
  for (const Comparison& row : rows) {
    total.elements += row.elements;
    total.differences += row.differences;
    total.largest = std::max(total.largest, row.largest);
    total.mean_square += row.mean_square / static_cast<double>(rows.size());
  }
  return total;
}

}  // namespace spmm::dense
