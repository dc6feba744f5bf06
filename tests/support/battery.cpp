// Recipes of operands: shapes of matrices first, then limits of the arithmetic.
#include "support/battery.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "support/matrix_builder.hpp"

namespace spmm::test {
namespace {

constexpr std::uint64_t kSeedOfB = 0x5DEECE66D;  // B differs from A for the same seed

/// Blocks such that count of them cost the oracle about the same for every m.
std::uint32_t scaled(std::uint32_t count, std::uint32_t m) {
  const std::uint32_t most = std::max(4u, (1u << 22) / (m * m * m));
  return std::min(count, most);
}

MatrixBuilder builder_a(std::uint32_t nb, std::uint32_t m, std::uint64_t seed) {
  return {nb, m, seed};
}
MatrixBuilder builder_b(std::uint32_t nb, std::uint32_t m, std::uint64_t seed) {
  return {nb, m, seed ^ kSeedOfB};
}

Operands random_pair(std::uint32_t nb, std::uint32_t m, std::uint32_t k, std::uint32_t max_value, std::uint64_t seed) {
  const std::uint32_t num = std::min(k, nb * nb);
  return {random_matrix(nb * m, m, num, max_value, seed), random_matrix(nb * m, m, num, max_value, seed ^ kSeedOfB)};
}

Operands usual(std::uint32_t m, std::uint64_t seed) {
  return random_pair(24, m, scaled(160, m), kFullRange, seed);
}

template <class T>
BlockList<T> without_blocks(const BlockList<T>& matrix) {
  return {.n = matrix.n, .m = matrix.m, .index = {}, .values = {}};
}

std::vector<std::size_t> counted(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

template <class T>
BlockList<T> reordered(const BlockList<T>& matrix, const std::vector<std::size_t>& order) {
  BlockList<T> out = without_blocks(matrix);
  for (const std::size_t x : order) {
    out.index.push_back(matrix.index[x]);
    out.values.insert(out.values.end(), matrix.block(x), matrix.block(x) + matrix.m * matrix.m);
  }
  return out;
}

template <class T>
BlockList<T> sorted(const BlockList<T>& matrix, bool backwards) {
  std::vector<std::size_t> order = counted(matrix.index.size());
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    return backwards ? matrix.index[y] < matrix.index[x] : matrix.index[x] < matrix.index[y];
  });
  return reordered(matrix, order);
}

/// A: one row of `length` blocks; B: the matching column. One result block made of `length` pairs.
Operands one_list(std::uint32_t length, std::uint32_t m, std::uint32_t a_value, std::uint32_t b_value) {
  MatrixBuilder a = builder_a(length, m, 0);
  MatrixBuilder b = builder_b(length, m, 0);
  for (std::uint32_t t = 0; t < length; ++t) {
    a.add_constant(0, t, a_value);
    b.add_constant(t, 0, b_value);
  }
  return {a.matrix(), b.matrix()};
}

/// Rows of A with as many blocks as `lengths` say, B with two columns: one list of every length and column.
Operands lists_of(const std::vector<std::uint32_t>& lengths, std::uint32_t m, std::uint32_t max_value, bool constant,
                  std::uint64_t seed) {
  const std::uint32_t nb = std::max<std::uint32_t>(*std::max_element(lengths.begin(), lengths.end()),
                                                   static_cast<std::uint32_t>(lengths.size()));
  MatrixBuilder a = builder_a(nb, m, seed);
  MatrixBuilder b = builder_b(nb, m, seed);
  const auto add = [&](MatrixBuilder& to, std::uint32_t i, std::uint32_t j) {
    constant ? to.add_constant(i, j, max_value) : to.add_random(i, j, max_value);
  };
  for (std::uint32_t i = 0; i < lengths.size(); ++i) {
    for (std::uint32_t t = 0; t < lengths[i]; ++t) add(a, i, t);
  }
  for (std::uint32_t t = 0; t < nb; ++t) add(b, t, t % 2 == 0 ? 0 : nb - 1);
  return {a.matrix(), b.matrix()};
}

Operands boundary_rows(std::uint32_t m, std::uint64_t seed) {
  std::vector<std::uint32_t> lengths;
  for (const std::uint32_t boundary : {32u, 64u, 256u, 1024u}) {
    const bool small_enough = std::uint64_t{boundary} * m * m * m <= (4u << 20) || boundary == 32;
    if (!small_enough) continue;
    for (const std::uint32_t length : {boundary - 1, boundary, boundary + 1}) lengths.push_back(length);
  }
  return lists_of(lengths, m, 300, false, seed);
}

/// Lists of 2047s whose sums pass 2^31 and 2^32 between one block and the next (both columns hold half a list).
Operands narrow_crossing(std::uint32_t m, std::uint64_t seed) {
  std::vector<std::uint32_t> lengths;
  for (const std::uint32_t terms : {512u, 1025u}) {
    const std::uint32_t blocks = 2 * terms / m;
    for (std::uint32_t extra = 0; extra < 6; ++extra) lengths.push_back(std::max(2u, blocks + extra - 2));
  }
  return lists_of(lengths, m, 2047, true, seed);
}

/// 65535*65535 + 65534*2 + x for x = 1, 2, 3: one below, exactly at and one above 2^32 - 1.
Operands at_the_limit(std::uint32_t m, std::uint64_t seed) {
  MatrixBuilder a = builder_a(5, m, seed);
  MatrixBuilder b = builder_b(5, m, seed);
  constexpr std::array<std::uint16_t, 3> kFactors = {65535, 65534, 1};
  for (std::uint32_t t = 0; t < 3; ++t) {
    a.add_constant(2, t, 0);
    for (std::uint32_t r = 0; r < m; ++r) a.element(r, r % m) = kFactors[t];
    for (std::uint32_t j = 0; j < 3; ++j) {
      const std::array<std::uint32_t, 3> values = {65535, 2, j + 1};
      b.add_constant(t, j, values[t]);
    }
  }
  return {shuffled(a.matrix(), seed), shuffled(b.matrix(), seed)};
}

Operands long_inner(std::uint32_t m, std::uint64_t) {
  const std::uint32_t terms = m <= 16 ? 66'060 : m <= 32 ? 33'040 : 8'200;
  return one_list(terms / m + 2, m, kFullRange, kFullRange);
}

Operands extreme_values(std::uint32_t m, std::uint64_t seed) {
  constexpr std::array<std::uint16_t, 8> kValues = {0, 1, 255, 256, 32767, 32768, 65534, 65535};
  Operands ab = random_pair(10, m, scaled(60, m), 7, seed);
  for (BlockMatrix* matrix : {&ab.first, &ab.second}) {
    for (std::uint16_t& value : matrix->values) value = kValues[value];
  }
  return ab;
}

Operands full_by_almost_zero(std::uint32_t m, std::uint64_t seed) {
  const std::uint32_t nb = scaled(70, m);
  Operands ab = one_list(nb, m, kFullRange, 0);
  for (std::uint32_t t = 0; t < nb; t += 7) ab.second.values[(t + 1) * m * m - 1 - seed % (m * m)] = 1;
  return ab;
}

Operands heavy_row(std::uint32_t m, std::uint64_t seed) {
  const std::uint32_t nb = scaled(180, m);
  Operands ab = random_pair(nb, m, nb, kFullRange, seed);
  MatrixBuilder a = builder_a(nb, m, seed);
  for (std::uint32_t t = 0; t < nb; ++t) a.add_random(nb / 2, t, kFullRange);
  a.add_random(nb - 1, 0, kFullRange);
  return {a.matrix(), ab.second};
}

Operands heavy_column(std::uint32_t m, std::uint64_t seed) {
  const Operands ab = heavy_row(m, seed);
  return {transposed(ab.second), transposed(ab.first)};
}

Operands outer_product(std::uint32_t m, std::uint64_t seed) {
  const std::uint32_t nb = std::max(3u, std::min(40u, 4096 / (m * m)));
  MatrixBuilder a = builder_a(nb, m, seed);
  MatrixBuilder b = builder_b(nb, m, seed);
  for (std::uint32_t x = 0; x < nb; ++x) {
    a.add_random(x, nb - 1, kFullRange);
    b.add_random(nb - 1, x, kFullRange);
  }
  return {a.matrix(), b.matrix()};
}

Operands every_fourth_row_empty(std::uint32_t m, std::uint64_t seed) {
  MatrixBuilder a = builder_a(32, m, seed);
  MatrixBuilder b = builder_b(32, m, seed);
  for (std::uint32_t i = 0; i < 32; ++i) {
    if (i % 4 == 3) continue;
    for (std::uint32_t x = 0; x < 3; ++x) {
      a.add_random(i, (i * 5 + x) % 32, kFullRange);
      b.add_random(i, (i * 11 + x) % 32, kFullRange);
    }
  }
  return {a.matrix(), b.matrix()};
}

Operands explicit_zero_blocks(std::uint32_t m, std::uint64_t seed) {
  Operands ab = usual(m, seed);
  for (BlockMatrix* matrix : {&ab.first, &ab.second}) {
    for (std::size_t e = 0; e < matrix->values.size(); ++e) {
      if ((e / (m * m)) % 3 != 1) matrix->values[e] = 0;
    }
  }
  return ab;
}

/// A is zero outside column 0 of each block, B is zero in row 0 (m = 1: both are zero): every product vanishes.
Operands vanishing_products(std::uint32_t m, std::uint64_t seed) {
  Operands ab = usual(m, seed);
  for (std::size_t e = 0; e < ab.first.values.size(); ++e) {
    if (e % m != 0) ab.first.values[e] = 0;
  }
  for (std::size_t e = 0; e < ab.second.values.size(); ++e) {
    if (e % (m * m) < m) ab.second.values[e] = 0;
  }
  return ab;
}

Operands no_matching_pairs(std::uint32_t m, std::uint64_t seed) {
  MatrixBuilder a = builder_a(20, m, seed);
  MatrixBuilder b = builder_b(20, m, seed);
  for (std::uint32_t x = 0; x < 20; ++x) {
    a.add_random(x, x / 2 * 2, kFullRange);
    b.add_random(x / 2 * 2 + 1, x, kFullRange);
  }
  return {a.matrix(), b.matrix()};
}

Operands huge_n(std::uint32_t m, std::uint64_t seed) {
  const std::uint32_t nb = std::numeric_limits<std::uint32_t>::max() / m;
  MatrixBuilder a = builder_a(nb, m, seed);
  MatrixBuilder b = builder_b(nb, m, seed);
  std::vector<std::uint32_t> lines = {0, 1, nb / 2, nb - 2, nb - 1};
  for (std::uint32_t x = 0; x < 8; ++x) lines.push_back(2 + static_cast<std::uint32_t>(a.below(nb / 2 - 2)));
  std::set<BlockIndex> taken;
  for (std::uint32_t x = 0; x < scaled(60, m); ++x) {
    const BlockIndex at{.i = lines[a.below(lines.size())], .j = lines[a.below(lines.size())]};
    if (!taken.insert(at).second) continue;
    a.add_random(at.i, at.j, kFullRange);
    b.add_random(at.j, at.i, kFullRange);
  }
  return {a.matrix(), b.matrix()};
}

Operands banded(std::uint32_t m, std::uint64_t seed) {
  const std::uint32_t nb = std::max(6u, scaled(120, m));
  MatrixBuilder a = builder_a(nb, m, seed);
  MatrixBuilder b = builder_b(nb, m, seed);
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (std::uint32_t j = i < 2 ? 0 : i - 2; j < std::min(nb, i + 2); ++j) {
      a.add_random(i, j, 255);
      b.add_random(i, j, 2047);
    }
  }
  return {a.matrix(), b.matrix()};
}

BlockMatrix power_law_matrix(std::uint32_t nb, std::uint32_t m, std::uint32_t k, std::uint64_t seed) {
  MatrixBuilder out(nb, m, seed);
  std::set<BlockIndex> taken;
  const auto pick = [&] {
    const double u = static_cast<double>(out.below(1u << 20) + 1) / (1 << 20);
    return std::min(nb - 1, static_cast<std::uint32_t>(std::pow(u, 4.0) * nb));
  };
  for (std::uint32_t x = 0; x < k; ++x) {
    const BlockIndex at{.i = pick(), .j = pick()};
    if (taken.insert(at).second) out.add_random(at.i, at.j, 2047);
  }
  return out.matrix();
}

Operands power_law(std::uint32_t m, std::uint64_t seed) {
  const std::uint32_t nb = 64;
  const std::uint32_t k = std::max(8u, scaled(400, m) / 2);
  return {power_law_matrix(nb, m, k, seed), power_law_matrix(nb, m, k, seed ^ kSeedOfB)};
}

Operands in_order(const Operands& ab, bool backwards) {
  return {sorted(ab.first, backwards), sorted(ab.second, backwards)};
}

template <class T>
BlockList<T> transpose_of(const BlockList<T>& matrix) {
  BlockList<T> out = matrix;
  const std::size_t m = matrix.m;
  for (std::size_t x = 0; x < matrix.index.size(); ++x) {
    std::swap(out.index[x].i, out.index[x].j);
    for (std::size_t e = 0; e < m * m; ++e) out.values[x * m * m + e % m * m + e / m] = matrix.block(x)[e];
  }
  return out;
}

std::vector<Recipe> make_battery() {
  const auto random_of = [](std::uint32_t nb, std::uint32_t k, std::uint32_t max_value) {
    return [=](std::uint32_t m, std::uint64_t seed) { return random_pair(nb, m, scaled(k, m), max_value, seed); };
  };
  return {
      {"empty A", "reads the first block of an empty list",
       [](auto m, auto seed) {
         return Operands{without_blocks(usual(m, seed).first), usual(m, seed).second};
       }},
      {"empty B", "looks up rows in an empty table",
       [](auto m, auto seed) {
         return Operands{usual(m, seed).first, without_blocks(usual(m, seed).second)};
       }},
      {"both empty", "launches or divides by zero blocks",
       [](auto m, auto seed) {
         return Operands{without_blocks(usual(m, seed).first), without_blocks(usual(m, seed).second)};
       }},
      {"one block", "index or layout within a block", random_of(1, 1, kFullRange)},
      {"narrow below 256", "one-byte path drops a digit", random_of(20, 120, 255)},
      {"narrow below 2048", "sums that stay in 32 bits", random_of(20, 120, 2047)},
      {"full u16 range", "elements taken as signed", usual},
      {"extreme values", "carry between low and high bytes", extreme_values},
      {"full by almost zero", "correction of signed operands", full_by_almost_zero},
      {"dense", "every row meets every column", random_of(9, 81, kFullRange)},
      {"hypersparse huge n", "memory or loops proportional to n, 32-bit products of indices", huge_n},
      {"heavy row", "one row has all the work", heavy_row},
      {"heavy column", "one column has all the work", heavy_column},
      {"outer product", "far more output than input", outer_product},
      {"every fourth row empty", "row pointers of empty rows", every_fourth_row_empty},
      {"row lengths around boundaries", "tails of vectors, warps and tiles", boundary_rows},
      {"explicit zero blocks", "result blocks that are zero are written", explicit_zero_blocks},
      {"vanishing products", "all result blocks are zero", vanishing_products},
      {"no matching pairs", "no output at all", no_matching_pairs},
      {"sums at the limit", "wraps, or clamps one too early or too late", at_the_limit},
      {"narrow sums cross 2^31 and 2^32", "32-bit sums are not flushed in time", narrow_crossing},
      {"full saturation", "sums of digits overflow on a long inner dimension", long_inner},
      {"banded", "neighbouring rows share blocks", banded},
      {"power law", "load balance and wide range of list lengths", power_law},
      {"records in order", "sort of sorted keys", [](auto m, auto seed) { return in_order(usual(m, seed), false); }},
      {"records backwards", "sort that is not stable",
       [](auto m, auto seed) { return in_order(usual(m, seed), true); }},
  };
}

}  // namespace

const std::vector<Recipe>& battery() {
  static const std::vector<Recipe> recipes = make_battery();
  return recipes;
}

BlockMatrix random_matrix(std::uint32_t n, std::uint32_t m, std::uint32_t k, std::uint32_t max_value,
                          std::uint64_t seed) {
  const std::uint32_t nb = n / m;
  MatrixBuilder out(nb, m, seed);
  std::set<BlockIndex> taken;
  // More than half full: pick from the list of all positions, else draw until new.
  if (std::uint64_t{k} * 2 > std::uint64_t{nb} * nb) {
    std::vector<std::uint64_t> all(std::uint64_t{nb} * nb);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    for (std::uint32_t x = 0; x < k; ++x) {
      std::swap(all[x], all[x + out.below(all.size() - x)]);
      out.add_random(static_cast<std::uint32_t>(all[x] / nb), static_cast<std::uint32_t>(all[x] % nb), max_value);
    }
    return out.matrix();
  }
  while (taken.size() < k) {
    const BlockIndex at{.i = static_cast<std::uint32_t>(out.below(nb)), .j = static_cast<std::uint32_t>(out.below(nb))};
    if (taken.insert(at).second) out.add_random(at.i, at.j, max_value);
  }
  return out.matrix();
}

BlockMatrix identity_matrix(std::uint32_t n, std::uint32_t m) {
  MatrixBuilder out(n / m, m, 0);
  for (std::uint32_t i = 0; i < n / m; ++i) {
    out.add_constant(i, i, 0);
    for (std::uint32_t r = 0; r < m; ++r) out.element(r, r) = 1;
  }
  return out.matrix();
}

BlockMatrix transposed(const BlockMatrix& matrix) {
  return transpose_of(matrix);
}

ProductMatrix transposed_product(const ProductMatrix& matrix) {
  return sorted(transpose_of(matrix), false);
}

BlockMatrix shuffled(const BlockMatrix& matrix, std::uint64_t seed) {
  std::vector<std::size_t> order = counted(matrix.index.size());
  std::mt19937_64 random(seed);
  for (std::size_t x = order.size(); x > 1; --x) std::swap(order[x - 1], order[random() % x]);
  return reordered(matrix, order);
}

}  // namespace spmm::test
