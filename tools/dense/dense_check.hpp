// Is a dense product right: rows of it computed again on the host, and how far C is from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/dense/dense_multiply.hpp"

namespace spmm::dense {

/// Multiply-adds up to which choose_rows() takes every row.
inline constexpr std::uint64_t kCheckBudget = std::uint64_t{1} << 33;

/// How many rows to compare: all where rows * inner * cols is at most `budget`, else as many as stay within it, at
/// least one.
std::uint32_t num_checked_rows(Shape shape, std::uint64_t budget = kCheckBudget);

/// So many rows, in rising order; where not all, at places chosen by `seed`, the first and the last row among them
/// if there are two or more.
std::vector<std::uint32_t> choose_rows(Shape shape, std::uint64_t seed, std::uint64_t budget = kCheckBudget);

/// Rows of C as they should be.
struct ExpectedRows {
  std::vector<std::uint32_t> rows;  ///< rising
  std::vector<double> values;       ///< [rows.size(), cols]; holds every element of every type exactly, f32 unrounded
  double size_a = 0;                ///< largest Euclidean norm of a row of A among `rows`
  double size_b = 0;                ///< largest Euclidean norm of a column of B
};

/// Computes rows of the product; f32 sums in double.
/// Shapes: a [shape.rows, inner], b [inner, cols]. Threads: starts num_threads.
ExpectedRows expected_rows(Type type, Shape shape, std::span<const std::byte> a, std::span<const std::byte> b,
                           std::vector<std::uint32_t> rows, unsigned num_threads);

/// Largest difference that rounding explains. Exact types: 0. f32: 6 * sqrt(K) * 2^-24 * |row of A| * |column of B|.
/// Source: N. Higham, T. Mary, A New Approach to Probabilistic Rounding Error Analysis (2019), for every order of
/// summation; the sum of |a b| is at most the product of the norms.
double rounding_threshold(Type type, Shape shape, const ExpectedRows& expected);

/// How far C is from the expected rows.
struct Comparison {
  std::uint64_t elements = 0;     ///< compared
  std::uint64_t differences = 0;  ///< elements off by more than the threshold, or not a number
  double largest = 0;             ///< largest |difference|
  double mean_square = 0;         ///< mean of difference^2
};

/// Shapes: c [shape.rows, cols]. Threads: starts num_threads; the result does not depend on them.
Comparison compare_rows(Type type, Shape shape, const ExpectedRows& expected, std::span<const std::byte> c,
                        double threshold, unsigned num_threads);

}  // namespace spmm::dense
