// The oracle: the product by its definition, written out without any arithmetic of the library.
#pragma once

#include <cstdint>

#include "spmm/types.hpp"

namespace spmm::test {

/// C = A * B with exact 64-bit sums, each element clamped to 4294967295; sorted by (i, j), no all-zero block.
/// Shapes: a, b [n x n] in blocks of m x m, the same n and m. Values: no position twice.
ProductMatrix oracle_multiply(const BlockMatrix& a, const BlockMatrix& b);

/// Elements that are 4294967295.
std::uint64_t num_saturated(const ProductMatrix& product);

}  // namespace spmm::test
