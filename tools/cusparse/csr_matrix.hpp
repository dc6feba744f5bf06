// Block-sparse matrices as compressed rows of single elements, what libraries for sparse matrices take.
#pragma once

#include <cstdint>
#include <vector>

#include "spmm/block_matrix.hpp"

namespace spmm::tools {

/// Shapes: offsets [rows + 1], columns and values [offsets.back()]; columns ascend within a row.
struct CsrMatrix {
  std::uint32_t rows = 0;
  std::vector<std::int32_t> offsets;
  std::vector<std::int32_t> columns;
  std::vector<std::uint16_t> values;

  [[nodiscard]] std::uint64_t num_entries() const { return values.size(); }
};

/// The elements that are not zero. Blocks may be in any order. Errors: OutOfMemory (more than 2^31 - 1 rows or
/// elements, which 32-bit offsets cannot name).
CsrMatrix to_csr(const BlockMatrix& matrix, unsigned num_threads);

/// Multiply-adds of A * B: for each element of A the length of B's row.
std::uint64_t count_products(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace spmm::tools
