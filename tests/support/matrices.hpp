// Matrices for tests.
#pragma once

#include <cstdint>
#include <utility>

#include "spmm/types.hpp"

namespace spmm::test {

using Operands = std::pair<BlockMatrix, BlockMatrix>;

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
