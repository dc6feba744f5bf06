// The oracle: each C block summed from its pairs, one 64-bit sum per element. That is exact: a row and a column meet in
// at most 2^32 - 1 terms, each below 2^32.
#include "support/oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace spmm::test {
namespace {

/// A block of A, a block of B that it meets, and the block column of their product.
struct Pair {
  std::uint32_t column;
  std::size_t a;
  std::size_t b;
};

std::vector<std::size_t> ordered_by_row(const BlockMatrix& matrix) {
  std::vector<std::size_t> order(matrix.index.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t x, std::size_t y) { return matrix.index[x] < matrix.index[y]; });
  return order;
}

void add_block_product(std::vector<std::uint64_t>& sums, const std::uint16_t* a, const std::uint16_t* b,
                       std::size_t m) {
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t inner = 0; inner < m; ++inner) {
      const std::uint32_t factor = a[row * m + inner];
      for (std::size_t col = 0; col < m; ++col) sums[row * m + col] += factor * b[inner * m + col];
    }
  }
}

}  // namespace

ProductMatrix oracle_multiply(const BlockMatrix& a, const BlockMatrix& b) {
  const std::size_t m = a.m;
  const std::vector<std::size_t> a_order = ordered_by_row(a);
  const std::vector<std::size_t> b_order = ordered_by_row(b);
  ProductMatrix c{.n = a.n, .m = a.m, .index = {}, .values = {}};
  std::vector<Pair> pairs;
  std::vector<std::uint64_t> sums(m * m);
  for (auto x = a_order.begin(); x != a_order.end();) {
    const std::uint32_t row = a.index[*x].i;
    pairs.clear();
    for (; x != a_order.end() && a.index[*x].i == row; ++x) {
      const std::uint32_t inner = a.index[*x].j;
      auto y = std::partition_point(b_order.begin(), b_order.end(),
                                    [&](std::size_t block) { return b.index[block].i < inner; });
      for (; y != b_order.end() && b.index[*y].i == inner; ++y) {
        pairs.push_back({.column = b.index[*y].j, .a = *x, .b = *y});
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const Pair& p, const Pair& q) { return p.column < q.column; });
    for (auto p = pairs.begin(); p != pairs.end();) {
      const std::uint32_t column = p->column;
      std::fill(sums.begin(), sums.end(), 0);
      for (; p != pairs.end() && p->column == column; ++p) {
        add_block_product(sums, a.values.data() + p->a * m * m, b.values.data() + p->b * m * m, m);
      }
      if (std::all_of(sums.begin(), sums.end(), [](std::uint64_t sum) { return sum == 0; })) continue;
      c.index.push_back({.i = row, .j = column});
      for (const std::uint64_t sum : sums) {
        c.values.push_back(sum > 4294967295U ? 4294967295U : static_cast<std::uint32_t>(sum));
      }
    }
  }
  return c;
}

Selected oracle_select(const ProductMatrix& product, const Selection& selection) {
  const std::size_t m = product.m;
  Selected selected{.c = {.n = product.n, .m = product.m, .index = {}, .values = {}}};
  for (std::size_t begin = 0, end = 0; begin < product.index.size(); begin = end) {
    const std::uint32_t i = product.index[begin].i;
    while (end < product.index.size() && product.index[end].i == i) ++end;
    std::vector<std::uint32_t> values(product.values.begin() + static_cast<std::ptrdiff_t>(begin * m * m),
                                      product.values.begin() + static_cast<std::ptrdiff_t>(end * m * m));
    for (std::size_t r = 0; r < m; ++r) {
      std::vector<std::size_t> left;  // places in values, columns ascend
      for (std::size_t block = begin; block < end; ++block) {
        for (std::size_t c = 0; c < m; ++c) {
          const std::size_t place = ((block - begin) * m + r) * m + c;
          const std::uint64_t row = std::uint64_t{i} * m + r;
          const std::uint64_t column = std::uint64_t{product.index[block].j} * m + c;
          const bool is_below = selection.upper_triangle && column < row;
          if (values[place] != 0 && !is_below && values[place] >= selection.at_least &&
              !(selection.no_diagonal && row == column)) {
            left.push_back(place);
            continue;
          }
          selected.num_dropped += values[place] != 0 && !is_below ? 1 : 0;
          values[place] = 0;
        }
      }
      if (selection.keep == 0) continue;
      std::stable_sort(left.begin(), left.end(), [&](std::size_t x, std::size_t y) { return values[x] > values[y]; });
      for (std::size_t x = selection.keep; x < left.size(); ++x) {
        values[left[x]] = 0;
        ++selected.num_dropped;
      }
    }
    for (std::size_t block = begin; block < end; ++block) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>((block - begin) * m * m);
      const auto to = from + static_cast<std::ptrdiff_t>(m * m);
      if (std::all_of(from, to, [](std::uint32_t value) { return value == 0; })) continue;
      selected.c.index.push_back(product.index[block]);
      selected.c.values.insert(selected.c.values.end(), from, to);
    }
  }
  return selected;
}

std::uint64_t num_saturated(const ProductMatrix& product) {
  return static_cast<std::uint64_t>(std::count(product.values.begin(), product.values.end(), 4294967295u));
}

}  // namespace spmm::test
