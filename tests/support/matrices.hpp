// Matrices for tests.
#pragma once

#include <cstdint>
#include <string>
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

/// The bytes of a file with this matrix.
template <class T>
std::string file_of(const BlockList<T>& matrix) {
  const MatrixHeader header = matrix.header();
  std::string bytes;
  const auto put = [&](const void* from, std::size_t count) { bytes.append(static_cast<const char*>(from), count); };
  for (const std::uint32_t word : {header.n, header.m, header.num_blocks}) put(&word, sizeof word);
  const std::size_t elements = matrix.index.empty() ? 0 : matrix.values.size() / matrix.index.size();
  for (std::size_t x = 0; x < matrix.index.size(); ++x) {
    put(&matrix.index[x], sizeof(BlockIndex));
    put(matrix.values.data() + x * elements, elements * sizeof(T));
  }
  return bytes;
}

/// The same blocks in another order of records.
BlockMatrix shuffled(const BlockMatrix& matrix, std::uint64_t seed);

}  // namespace spmm::test
