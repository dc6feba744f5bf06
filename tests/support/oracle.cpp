// The oracle: a map of result blocks, one 128-bit sum per element.
#include "support/oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace spmm::test {
namespace {

using Wide = unsigned __int128;
using Position = std::pair<std::uint32_t, std::uint32_t>;

void add_block_product(std::vector<Wide>& sums, const std::uint16_t* a, const std::uint16_t* b, std::size_t m) {
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t inner = 0; inner < m; ++inner) {
      const Wide factor = a[row * m + inner];
      if (factor == 0) continue;
      for (std::size_t col = 0; col < m; ++col) sums[row * m + col] += factor * b[inner * m + col];
    }
  }
}

}  // namespace

ProductMatrix oracle_multiply(const BlockMatrix& a, const BlockMatrix& b) {
  const std::size_t m = a.m;
  std::map<std::uint32_t, std::vector<std::size_t>> blocks_of_row;  // row of B -> its blocks
  for (std::size_t y = 0; y < b.index.size(); ++y) blocks_of_row[b.index[y].i].push_back(y);

  std::map<Position, std::vector<Wide>> sums;
  for (std::size_t x = 0; x < a.index.size(); ++x) {
    const auto row = blocks_of_row.find(a.index[x].j);
    if (row == blocks_of_row.end()) continue;
    for (const std::size_t y : row->second) {
      std::vector<Wide>& tile = sums[{a.index[x].i, b.index[y].j}];
      tile.resize(m * m, 0);
      add_block_product(tile, a.values.data() + x * m * m, b.values.data() + y * m * m, m);
    }
  }

  ProductMatrix c{.n = a.n, .m = a.m, .index = {}, .values = {}};
  for (const auto& [position, tile] : sums) {
    bool any = false;
    for (const Wide sum : tile) any = any || sum != 0;
    if (!any) continue;
    c.index.push_back({.i = position.first, .j = position.second});
    for (const Wide sum : tile) {
      const bool too_large = (sum >> 32) != 0;
      c.values.push_back(too_large ? 4294967295U : static_cast<std::uint32_t>(sum));
    }
  }
  return c;
}

std::uint64_t num_saturated(const ProductMatrix& product) {
  return static_cast<std::uint64_t>(std::count(product.values.begin(), product.values.end(), 4294967295u));
}

}  // namespace spmm::test
