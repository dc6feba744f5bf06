// Named pairs of operands, each for the bug that it surfaces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "spmm/block_matrix.hpp"

namespace spmm::test {

using Operands = std::pair<BlockMatrix, BlockMatrix>;

struct Recipe {
  std::string name;
  std::string bug;  ///< one line: which bug it surfaces
  /// Operands with block side m (1 to 64); the same m and seed give the same operands.
  std::function<Operands(std::uint32_t m, std::uint64_t seed)> make;
};

/// All recipes. Memory: a few MB each; the oracle takes well under a second for any m.
const std::vector<Recipe>& battery();

/// k blocks at distinct positions, in random order.
/// Shapes: n a multiple of m, k at most (n/m)^2. Values: uniform in [0, max_value].
BlockMatrix random_matrix(std::uint32_t n, std::uint32_t m, std::uint32_t k, std::uint32_t max_value,
                          std::uint64_t seed);

/// The identity: n/m blocks on the diagonal.
BlockMatrix identity_matrix(std::uint32_t n, std::uint32_t m);

/// The transpose, blocks in the same order.
BlockMatrix transposed(const BlockMatrix& matrix);

/// The transpose of a result, sorted by (i, j) as results are.
ProductMatrix transposed_product(const ProductMatrix& matrix);

/// The same blocks in another order of records.
BlockMatrix shuffled(const BlockMatrix& matrix, std::uint64_t seed);

}  // namespace spmm::test
