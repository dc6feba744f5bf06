// Products of all element types for tests: the oracle of the chains, written as three loops, and random operands.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "spmm/arrays.hpp"
#include "spmm/element_types.hpp"

namespace spmm::test {

using Random = std::mt19937_64;

/// Block-CSR. Shapes: ptr [rows + 1], col [ptr[rows]], ascending in each row; rows and columns of blocks.
struct ChainPattern {
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::vector<std::uint32_t> ptr{0};
  std::vector<std::uint32_t> col{};
};

/// Shapes: values [blocks, m, m].
template <class T>
struct ChainMatrix {
  ChainPattern at;
  std::uint32_t m = 1;
  std::vector<T> values{};
};

/// Sums of uint16_t saturate; their products are those of C blocks that are given.
template <class T>
inline constexpr bool kSaturates = std::is_same_v<T, std::uint16_t>;

/// Type of the sums for operands of type T.
template <class T>
using SumOf = std::conditional_t<
    std::is_same_v<T, double>, double,
    std::conditional_t<kSaturates<T>, std::uint32_t, std::conditional_t<std::is_integral_v<T>, std::uint64_t, float>>>;

/// Exact.
template <class T>
SumOf<T> as_sum(T x) {
  if constexpr (std::is_same_v<T, Half>) {
    const int exponent = x.bits >> 10 & 31;
    const int fraction = x.bits & 1023;
    float value =
        std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 1024), std::max(exponent, 1) - 25);
    if (exponent == 31) value = fraction == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
    return std::copysign(value, x.bits >> 15 != 0 ? -1.0F : 1.0F);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
  } else {
    return static_cast<SumOf<T>>(x);
  }
}

/// C block of each column that a row of A times B has; -1: none.
inline std::vector<std::int64_t> places_of_row(const ChainPattern& a, const ChainPattern& b, std::uint32_t row,
                                               ChainPattern& c) {
  std::vector<std::int64_t> places(b.cols, -1);
  for (std::uint32_t x = a.ptr[row]; x < a.ptr[row + 1]; ++x) {
    for (std::uint32_t y = b.ptr[a.col[x]]; y < b.ptr[a.col[x] + 1]; ++y) places[b.col[y]] = 0;
  }
  for (std::uint32_t j = 0; j < b.cols; ++j) {
    if (places[j] < 0) continue;
    places[j] = static_cast<std::int64_t>(c.col.size());
    c.col.push_back(j);
  }
  c.ptr.push_back(static_cast<std::uint32_t>(c.col.size()));
  return places;
}

/// Gives NaN the pattern that results have.
template <class Sum>
void set_nan(std::vector<Sum>& values) {
  if constexpr (std::is_floating_point_v<Sum>) {
    for (Sum& sum : values) {
      if (sum == sum) continue;
      if constexpr (sizeof(Sum) == 8) sum = std::bit_cast<double>(std::uint64_t{0x7FF8000000000000});
      if constexpr (sizeof(Sum) == 4) sum = std::bit_cast<float>(0x7FC00000u);
    }
  }
}

/// The chain of each element of each C block that has a pair.
template <class T>
ChainMatrix<SumOf<T>> chain_oracle(const ChainMatrix<T>& a, const ChainMatrix<T>& b) {
  using Sum = SumOf<T>;
  const std::uint32_t m = a.m;
  ChainMatrix<Sum> c{.at = {.rows = a.at.rows, .cols = b.at.cols}, .m = m};
  for (std::uint32_t row = 0; row < a.at.rows; ++row) {
    const std::vector<std::int64_t> places = places_of_row(a.at, b.at, row, c.at);
    c.values.resize(c.at.col.size() * m * m, Sum{0});
    for (std::uint32_t x = a.at.ptr[row]; x < a.at.ptr[row + 1]; ++x) {
      for (std::uint32_t y = b.at.ptr[a.at.col[x]]; y < b.at.ptr[a.at.col[x] + 1]; ++y) {
        Sum* const to = &c.values[static_cast<std::size_t>(places[b.at.col[y]]) * m * m];
        for (std::uint32_t e = 0; e < m * m; ++e) {
          for (std::uint32_t k = 0; k < m; ++k) {
            const Sum u = as_sum(a.values[(std::size_t{x} * m + e / m) * m + k]);
            const Sum v = as_sum(b.values[(std::size_t{y} * m + k) * m + e % m]);
            if constexpr (std::is_floating_point_v<Sum>) {
              to[e] = std::fma(u, v, to[e]);
            } else if constexpr (kSaturates<T>) {
              to[e] = static_cast<Sum>(std::min<std::uint64_t>(to[e] + std::uint64_t{u} * v, 0xFFFF'FFFFu));
            } else {
              to[e] += u * v;
            }
          }
        }
      }
    }
  }
  set_nan(c.values);
  return c;
}

/// C blocks that are given, and what is added to them. Shapes: old [C blocks, m, m].
template <class T>
struct GivenResult {
  ChainPattern at;
  std::vector<SumOf<T>> old{};
  SumOf<T> alpha{1};
  SumOf<T> beta{0};
  unsigned long long missing = ~0ull;  // block row << 32 | block column that the kernels have to find
};

/// alpha * chain + beta * old of each element of each block that is given, others are left out.
template <class T>
ChainMatrix<SumOf<T>> given_oracle(const ChainMatrix<T>& a, const ChainMatrix<T>& b, const GivenResult<T>& given) {
  const ChainMatrix<SumOf<T>> all = chain_oracle(a, b);
  const std::size_t elements = std::size_t{a.m} * a.m;
  ChainMatrix<SumOf<T>> c{.at = given.at, .m = a.m, .values = std::vector<SumOf<T>>(given.at.col.size() * elements)};
  for (std::uint32_t row = 0; row < c.at.rows; ++row) {
    for (std::uint32_t x = c.at.ptr[row]; x < c.at.ptr[row + 1]; ++x) {
      for (std::uint32_t y = all.at.ptr[row]; y < all.at.ptr[row + 1]; ++y) {
        if (all.at.col[y] != c.at.col[x]) continue;
        for (std::size_t e = 0; e < elements; ++e) c.values[x * elements + e] = all.values[y * elements + e];
      }
    }
  }
  for (std::size_t e = 0; e < c.values.size(); ++e) {
    SumOf<T>& sum = c.values[e];
    if constexpr (std::is_floating_point_v<SumOf<T>>) {
      const volatile SumOf<T> added = given.beta == 0 ? SumOf<T>(-0.0) : given.beta * given.old[e];  // x + -0 is x
      sum = std::fma(given.alpha, sum, added);
    } else {
      sum = given.alpha * sum + given.beta * given.old[e];
    }
  }
  set_nan(c.values);
  return c;
}

template <class T>
bool same_bits(const ChainMatrix<T>& x, const ChainMatrix<T>& y) {
  return x.at.ptr == y.at.ptr && x.at.col == y.at.col && x.values.size() == y.values.size() &&
         (x.values.empty() || std::memcmp(x.values.data(), y.values.data(), x.values.size() * sizeof(T)) == 0);
}

/// Elements of random matrices: of one size, over 60 binary orders of magnitude, with infinities, NaN, subnormals, -0
/// and sums that underflow or overflow; such that cancel; such whose products are all +0 or -0.
enum class ChainValueKind { normal, wide, special, cancelling, vanishing };
inline constexpr unsigned kNumValueKinds = 5;

template <class T>
T random_float(ChainValueKind kind, Random& random) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using Limits = std::numeric_limits<T>;
  const std::uint64_t r = random();
  T x = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random));
  if (kind == ChainValueKind::cancelling) {
    const double size =
        std::ldexp(1 + static_cast<double>(r >> 8 & 3) * Limits::epsilon(), static_cast<int>(r >> 12 & 3) * 20);
    return static_cast<T>((r & 1) != 0 ? size : -size);
  }
  if (kind == ChainValueKind::vanishing) return std::ldexp(x, Limits::min_exponent + 10);
  if (kind != ChainValueKind::normal) x = std::ldexp(x, static_cast<int>(r % 61) - 30);
  if (kind != ChainValueKind::special) return x;
  switch (r >> 10 & 63) {
    case 0:
      return Limits::infinity();
    case 1:
      return -Limits::infinity();
    case 2:
      return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(Limits::quiet_NaN()) | (r & 0xFFFF)));
    case 3:
    case 4:
      return T(-0.0);
    case 5:
      return T(0);
    case 6:
    case 7:
    case 8:
      return std::ldexp(x, Limits::min_exponent / 2 - 10);  // products underflow
    case 9:
    case 10:
      return Limits::denorm_min() * static_cast<T>(r % 5);
    case 11:
      return std::ldexp(x, Limits::min_exponent - 4);
    case 12:
      return std::ldexp(x, Limits::max_exponent / 2 + 5);  // products overflow
    case 13:
      return Limits::max();
    default:
      return x;
  }
}

template <class T>
T random_element(ChainValueKind kind, Random& random) {
  if constexpr (std::is_integral_v<T>) {
    const std::uint64_t r = random();
    if (kind == ChainValueKind::normal) return static_cast<T>(r % 7);
    if (r % 16 == 0) return std::numeric_limits<T>::min();
    return r % 16 == 1 ? std::numeric_limits<T>::max() : static_cast<T>(r >> 8);
  } else if constexpr (std::is_floating_point_v<T>) {
    return random_float<T>(kind, random);
  } else {
    const std::uint16_t infinity = std::is_same_v<T, Half> ? 0x7C00 : 0x7F80;
    auto bits = static_cast<std::uint16_t>(random());
    if (kind != ChainValueKind::special && (bits & infinity) == infinity) bits &= 0x8FFF;
    return {bits};
  }
}

/// Special values lie in some blocks alone: else all sums would be NaN.
template <class T>
ChainMatrix<T> random_chain_matrix(const ChainPattern& at, std::uint32_t m, ChainValueKind kind, Random& random) {
  ChainMatrix<T> matrix{.at = at, .m = m};
  for (std::size_t x = 0; x < at.col.size(); ++x) {
    const bool is_tame = kind == ChainValueKind::special && random() % 4 != 0;
    for (std::uint32_t e = 0; e < m * m; ++e) {
      matrix.values.push_back(random_element<T>(is_tame ? ChainValueKind::wide : kind, random));
    }
  }
  return matrix;
}

/// Rows of very different lengths if skewed. Values: density of 0 to 1.
inline ChainPattern random_pattern(std::uint32_t rows, std::uint32_t cols, double density, bool is_skewed,
                                   Random& random) {
  ChainPattern pattern{.rows = rows, .cols = cols};
  for (std::uint32_t i = 0; i < rows; ++i) {
    double own = density;
    if (is_skewed) own *= random() % 16 == 0 ? 8 : random() % 3 == 0 ? 0 : 0.7;
    std::poisson_distribution<std::uint32_t> number(own * cols);
    const auto first = static_cast<std::ptrdiff_t>(pattern.col.size());
    for (std::uint32_t x = own == 0 ? 0 : number(random); x > 0; --x) {
      pattern.col.push_back(static_cast<std::uint32_t>(random() % cols));
    }
    std::sort(pattern.col.begin() + first, pattern.col.end());
    pattern.col.erase(std::unique(pattern.col.begin() + first, pattern.col.end()), pattern.col.end());
    pattern.ptr.push_back(static_cast<std::uint32_t>(pattern.col.size()));
  }
  return pattern;
}

/// A result with some blocks of the product and some of none, or with all of them if it covers the product.
template <class T>
GivenResult<T> random_result(const ChainMatrix<T>& a, const ChainMatrix<T>& b, bool covers, Random& random) {
  using Sum = SumOf<T>;
  const ChainPattern all = chain_oracle(a, b).at;
  GivenResult<T> given{.at = {.rows = all.rows, .cols = all.cols}};
  const ChainPattern others =
      random_pattern(all.rows, all.cols, std::min(0.3, 3.0 / all.cols), random() % 2 == 0, random);
  for (std::uint32_t row = 0; row < all.rows; ++row) {
    std::vector<std::uint32_t> columns(others.col.begin() + others.ptr[row], others.col.begin() + others.ptr[row + 1]);
    for (std::uint32_t y = all.ptr[row]; y < all.ptr[row + 1]; ++y) {
      if (covers || random() % 3 == 0) columns.push_back(all.col[y]);
    }
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    given.at.col.insert(given.at.col.end(), columns.begin(), columns.end());
    given.at.ptr.push_back(static_cast<std::uint32_t>(given.at.col.size()));
  }
  const auto kind = static_cast<ChainValueKind>(random() % kNumValueKinds);
  if (!kSaturates<T> && random() % 4 != 0) given.alpha = random_element<Sum>(kind, random);
  if (!kSaturates<T> && random() % 4 != 0) given.beta = random_element<Sum>(kind, random);
  given.old.resize(given.at.col.size() * a.m * a.m);
  for (Sum& x : given.old) x = random_element<Sum>(kind, random);
  return given;
}

template <class T>
struct ChainOperands {
  ChainMatrix<T> a;
  ChainMatrix<T> b;
};

/// Operands that reach every way to list a row: tiny ones, sorted rows, walked rows, several windows of columns.
/// Values: wide_columns = block columns of those that need windows.
template <class T>
ChainOperands<T> random_operands(std::uint32_t m, std::uint32_t wide_columns, Random& random) {
  struct Shape {
    std::uint32_t rows, inner, cols;
    double a, b;
    bool is_skewed;
  };
  const auto up_to = [&](std::uint32_t most) { return static_cast<std::uint32_t>(1 + random() % most); };
  const auto shape = [&]() -> Shape {
    const std::uint32_t side = m > 8 ? m / 8 : 1;
    switch (random() % (m > 8 ? 4 : 6)) {
      case 0:
        return {up_to(4), up_to(4), up_to(4), 0.5, 0.5, false};
      case 1:
        return {up_to(60 / side), up_to(60 / side), up_to(60 / side), 0.1, 0.1, true};
      case 2:
        return {up_to(3), up_to(120 / side), up_to(40 / side), 0.6, 0.3, false};  // C blocks of many pairs
      case 3:
        return {up_to(40 / side), up_to(10), up_to(60 / side), 0.05, 0.2, true};
      case 4:
        return {up_to(300), up_to(300), up_to(300), 0.03, 0.03, true};
      default:
        return {up_to(6), up_to(40), wide_columns / 2 + up_to(wide_columns), 0.5, 160.0 / wide_columns, true};
    }
  }();
  const auto kind = static_cast<ChainValueKind>(random() % kNumValueKinds);
  const ChainPattern a = random_pattern(shape.rows, shape.inner, shape.a, shape.is_skewed, random);
  const ChainPattern b = random_pattern(shape.inner, shape.cols, shape.b, shape.is_skewed, random);
  return {.a = random_chain_matrix<T>(a, m, kind, random), .b = random_chain_matrix<T>(b, m, kind, random)};
}

/// Which block lies at each place of arrays: those of a row in random order if is_shuffled.
inline std::vector<std::uint32_t> order_of(const ChainPattern& at, bool is_shuffled, Random& random) {
  std::vector<std::uint32_t> order(at.col.size());
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t row = 0; is_shuffled && row < at.rows; ++row) {
    std::shuffle(order.begin() + at.ptr[row], order.begin() + at.ptr[row + 1], random);
  }
  return order;
}

template <class T>
BsrMatrix<T> arrays_of(const ChainMatrix<T>& matrix, const std::vector<std::uint32_t>& order) {
  const std::size_t elements = std::size_t{matrix.m} * matrix.m;
  BsrMatrix<T> out{.rows = std::uint64_t{matrix.at.rows} * matrix.m,
                   .cols = std::uint64_t{matrix.at.cols} * matrix.m,
                   .m = matrix.m,
                   .indptr = {matrix.at.ptr.begin(), matrix.at.ptr.end()}};
  for (const std::uint32_t x : order) {
    out.indices.push_back(matrix.at.col[x]);
    const auto from = matrix.values.begin() + static_cast<std::ptrdiff_t>(x * elements);
    out.data.insert(out.data.end(), from, from + static_cast<std::ptrdiff_t>(elements));
  }
  return out;
}

/// Whether a result has an oracle's bits. Values: Sum = int64 has those of uint64.
template <class Sum, class Wanted>
bool has_bits(const BsrMatrix<Sum>& c, const ChainMatrix<Wanted>& wanted) {
  return same_bits(wanted, {.at = {.rows = static_cast<std::uint32_t>(c.rows / c.m),
                                   .cols = static_cast<std::uint32_t>(c.cols / c.m),
                                   .ptr = {c.indptr.begin(), c.indptr.end()},
                                   .col = {c.indices.begin(), c.indices.end()}},
                            .m = c.m,
                            .values = {c.data.begin(), c.data.end()}});
}
template <class T, class Sum>
bool is_product(const BsrMatrix<Sum>& c, const ChainMatrix<T>& a, const ChainMatrix<T>& b) {
  return has_bits(c, chain_oracle(a, b));
}

/// C as a caller has it, before the product.
template <class T>
BsrMatrix<ProductOf<T>> arrays_of(const GivenResult<T>& given, std::uint32_t m) {
  return {.rows = std::uint64_t{given.at.rows} * m,
          .cols = std::uint64_t{given.at.cols} * m,
          .m = m,
          .indptr = {given.at.ptr.begin(), given.at.ptr.end()},
          .indices = {given.at.col.begin(), given.at.col.end()},
          .data = {given.old.begin(), given.old.end()}};
}

/// A side of 1 to 64; the compiled ones come more often.
inline std::uint32_t random_side(Random& random) {
  constexpr std::uint32_t kCommon[] = {1, 2, 3, 4, 8, 16, 32, 64, 5, 7, 12, 24};
  return random() % 4 == 0 ? static_cast<std::uint32_t>(1 + random() % 64) : kCommon[random() % std::size(kCommon)];
}

}  // namespace spmm::test
