// Matrices and products for the tests of dense kernels, written out without the library's arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tools/dense/dense.hpp"

namespace spmm::test {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::span<std::byte> writable_bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

/// Elements anywhere in [low, high].
template <class T>
std::vector<T> random_elements(std::size_t count, std::int64_t low, std::int64_t high, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> value(low, high);
  std::vector<T> values(count);
  for (T& one : values) one = static_cast<T>(value(random));
  return values;
}

__extension__ using Int128 = __int128;

/// The exact product of whole numbers. Shapes: a [J, K], b [K, L], result [J, L].
template <class T>
std::vector<Int128> exact_product(dense::Shape shape, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<Int128> c(std::size_t{shape.rows} * shape.cols, 0);
  for (std::size_t k = 0; k < shape.inner; ++k) {
    for (std::size_t at = 0; at < c.size(); ++at) {
      const std::size_t row = at / shape.cols;
      const std::size_t col = at % shape.cols;
      c[at] += static_cast<Int128>(a[row * shape.inner + k]) * static_cast<Int128>(b[k * shape.cols + col]);
    }
  }
  return c;
}

/// An exact sum modulo 2^32, as an int32.
inline std::int32_t wrapped(Int128 sum) {
  constexpr Int128 kModulus = Int128{1} << 32;
  Int128 rest = sum % kModulus;
  if (rest < 0) rest += kModulus;
  return static_cast<std::int32_t>(rest >= kModulus / 2 ? rest - kModulus : rest);
}

inline std::uint32_t clamped(Int128 sum) {
  return static_cast<std::uint32_t>(std::min<Int128>(sum, 4'294'967'295));
}

}  // namespace spmm::test
