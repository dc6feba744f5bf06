#include "support/matrices.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "support/matrix_builder.hpp"

namespace spmm::test {
namespace {

std::vector<std::size_t> counted(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

template <class T>
BlockList<T> reordered(const BlockList<T>& matrix, const std::vector<std::size_t>& order) {
  BlockList<T> out{.n = matrix.n, .m = matrix.m, .index = {}, .values = {}};
  for (const std::size_t x : order) {
    out.index.push_back(matrix.index[x]);
    out.values.insert(out.values.end(), matrix.block(x), matrix.block(x) + matrix.m * matrix.m);
  }
  return out;
}

template <class T>
BlockList<T> sorted(const BlockList<T>& matrix) {
  std::vector<std::size_t> order = counted(matrix.index.size());
  std::sort(order.begin(), order.end(),
            [&](std::size_t x, std::size_t y) { return matrix.index[x] < matrix.index[y]; });
  return reordered(matrix, order);
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

}  // namespace

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
  return sorted(transpose_of(matrix));
}

BlockMatrix shuffled(const BlockMatrix& matrix, std::uint64_t seed) {
  std::vector<std::size_t> order = counted(matrix.index.size());
  std::mt19937_64 random(seed);
  for (std::size_t x = order.size(); x > 1; --x) std::swap(order[x - 1], order[random() % x]);
  return reordered(matrix, order);
}

}  // namespace spmm::test
