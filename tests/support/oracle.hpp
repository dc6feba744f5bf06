// The oracle: the product by its definition, written out without any arithmetic of the library.
#pragma once

#include <cstdint>

#include "spmm/selection.hpp"
#include "spmm/types.hpp"

namespace spmm::test {

/// C = A * B with exact 64-bit sums, each element clamped to 4294967295; sorted by (i, j), no all-zero block.
/// Shapes: a, b [n x n] in blocks of m x m, the same n and m. Values: no position twice.
ProductMatrix oracle_multiply(const BlockMatrix& a, const BlockMatrix& b);

/// The elements of a product that a selection keeps, row by row of elements.
struct Selected {
  ProductMatrix c;
  std::uint64_t num_dropped = 0;  ///< not zero, and not below the triangle
};
Selected oracle_select(const ProductMatrix& product, const Selection& selection);

/// Elements that are 4294967295.
std::uint64_t num_saturated(const ProductMatrix& product);

}  // namespace spmm::test
