// The caller's block-CSR arrays: their checks, and their blocks as packed records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "spmm/arrays.hpp"

namespace spmm::io {

/// Checks the sides of a matrix. Errors: FormatError.
void check_bsr_sides(std::uint64_t rows, std::uint64_t cols, std::uint32_t m, const std::string& name);

/// Block-CSR arrays that have been checked, as records in the order of the arrays. The arrays must outlive it.
template <class T>
class BsrRecords {
 public:
  /// Of a matrix padded to n x n elements. Errors: FormatError that names array and place: lengths, indptr, columns.
  BsrRecords(const BsrView<T>& matrix, std::uint32_t n, const std::string& name);

  [[nodiscard]] const MatrixHeader& header() const { return header_; }

  /// Packs blocks [first, first + count). Shapes: dst [count * record_bytes<T>(m)].
  void pack(std::uint64_t first, std::uint64_t count, std::byte* dst) const;

  /// "indices[5] (block row 2)".
  [[nodiscard]] std::string place(std::uint64_t block) const;

  /// Errors: FormatError for a block that is stored twice.
  void check_distinct(const std::string& name) const;

 private:
  void check_indptr(const std::string& name) const;
  void check_columns(const std::string& name) const;
  /// Block row of a block.
  [[nodiscard]] std::uint64_t row_of(std::uint64_t block) const;

  BsrView<T> matrix_;
  MatrixHeader header_;
};

extern template class BsrRecords<std::uint16_t>;
extern template class BsrRecords<std::uint32_t>;

}  // namespace spmm::io
