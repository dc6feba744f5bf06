// The caller's arrays as sources of packed records: block-CSR arrays, and lists of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "spmm/arrays.hpp"
#include "spmm/stream.hpp"

namespace spmm::io {

/// Checks the sides of a matrix. Errors: FormatError.
void check_bsr_sides(std::uint64_t rows, std::uint64_t cols, std::uint32_t m, const std::string& name);

/// Block-CSR arrays that have been checked, in the order of the arrays, which must outlive it.
template <class T>
class BsrSource final : public Source {
 public:
  /// Of a matrix padded to n x n elements. Errors: FormatError that names array and place: lengths, indptr, columns.
  BsrSource(const BsrView<T>& matrix, std::uint32_t n, std::string name);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  /// "indices[5] (block row 2)".
  [[nodiscard]] std::string place(std::uint64_t block) const override;
  void check_unchanged() const override {}

  /// Shapes: dst [count * record_bytes<T>(m)].
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;

  /// Errors: FormatError for a block that is stored twice.
  void check_distinct() const;

 private:
  void check_indptr() const;
  void check_columns() const;
  /// Block row of a block.
  [[nodiscard]] std::uint64_t row_of(std::uint64_t block) const;

  BsrView<T> matrix_;
  std::string name_;
  MatrixHeader header_;
};

/// A list of blocks in the order of the arrays, which must outlive it.
template <class T>
class BlockSource final : public Source {
 public:
  /// Shapes: index [num_blocks], values [num_blocks, m, m]. Errors: FormatError (lengths).
  BlockSource(std::uint32_t n, std::uint32_t m, std::span<const BlockIndex> index, std::span<const T> values,
              std::string name);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  /// "block 5".
  [[nodiscard]] std::string place(std::uint64_t block) const override;
  void check_unchanged() const override {}

  /// Shapes: dst [count * record_bytes<T>(m)].
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;

 private:
  std::span<const BlockIndex> index_;
  std::span<const T> values_;
  std::string name_;
  MatrixHeader header_;
};

extern template class BsrSource<std::uint16_t>;
extern template class BsrSource<std::uint32_t>;
extern template class BlockSource<std::uint16_t>;
extern template class BlockSource<std::uint32_t>;

}  // namespace spmm::io
