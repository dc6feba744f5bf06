// Block-CSR arrays of a list of blocks, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "spmm/arrays.hpp"
#include "spmm/types.hpp"

namespace spmm::test {

/// Rows in order, the blocks of a row as they come in the list.
template <class T>
BsrMatrix<T> as_bsr(const BlockList<T>& matrix) {
  std::multimap<std::uint32_t, std::size_t> by_row;
  for (std::size_t b = 0; b < matrix.index.size(); ++b) by_row.emplace(matrix.index[b].i, b);
  BsrMatrix<T> bsr{.rows = matrix.n, .cols = matrix.n, .m = matrix.m};
  bsr.indptr.assign(std::size_t{matrix.n} / matrix.m + 1, 0);
  for (const auto& [row, b] : by_row) {
    ++bsr.indptr[row + std::size_t{1}];
    bsr.indices.push_back(matrix.index[b].j);
    bsr.data.insert(bsr.data.end(), matrix.block(b), matrix.block(b) + std::size_t{matrix.m} * matrix.m);
  }
  for (std::size_t r = 1; r < bsr.indptr.size(); ++r) bsr.indptr[r] += bsr.indptr[r - 1];
  return bsr;
}

/// The blocks in the order of the arrays, in a matrix of n x n elements.
template <class T>
BlockList<T> as_blocks(const BsrMatrix<T>& bsr, std::uint32_t n) {
  BlockList<T> matrix{.n = n, .m = bsr.m, .index = {}, .values = bsr.data};
  for (std::size_t r = 0; r + 1 < bsr.indptr.size(); ++r) {
    for (auto b = bsr.indptr[r]; b < bsr.indptr[r + 1]; ++b) {
      matrix.index.push_back({.i = static_cast<std::uint32_t>(r),
                              .j = static_cast<std::uint32_t>(bsr.indices[static_cast<std::size_t>(b)])});
    }
  }
  return matrix;
}

}  // namespace spmm::test
