// Walks over the blocks of a matrix file for a writer of another format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spmm/types.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/convert/blocks/entries.hpp"

namespace spmm::tools {

/// What of a matrix is written.
struct MatrixCut {
  MatrixShape shape;  ///< rows and columns that are kept, after the transposition; the rest must be zero
  bool transposed = false;
};

/// One block after the other by (block row, block column), as often as wanted. A file whose records lie in that order
/// is read front to back; for another one, or a transposed one, an index is sorted first. Memory: 4 MB, and for an
/// index 16 bytes a block. Errors: FormatError (index out of range, a block twice), ShapeError (an element outside the
/// shape), IoError, Interrupted.
class BlockWalk {
 public:
  BlockWalk(const MatrixFile& matrix, const MatrixCut& cut);

  /// To the next block that lies, at least in part, inside the shape; false at the end.
  bool next();
  void rewind() { next_ = 0; }

  [[nodiscard]] BlockIndex at() const { return at_; }
  /// Shapes: [m, m] row-major, transposed where the matrix is.
  [[nodiscard]] std::span<const std::uint32_t> elements() const { return elements_; }
  /// Rows and columns of the block inside the shape, 1 to m.
  [[nodiscard]] std::uint32_t rows_inside() const { return rows_inside_; }
  [[nodiscard]] std::uint32_t columns_inside() const { return columns_inside_; }

  [[nodiscard]] const MatrixFile& matrix() const { return matrix_; }
  [[nodiscard]] bool transposed() const { return cut_.transposed; }
  [[nodiscard]] const MatrixShape& shape() const { return cut_.shape; }
  [[nodiscard]] std::uint32_t m() const { return m_; }

 private:
  struct RecordPlace {
    BlockIndex at;
    std::uint64_t record;
  };

  void build_index();
  const std::byte* load(std::uint64_t place);
  void decode(const std::byte* record);
  void check_outside() const;

  const MatrixFile& matrix_;
  MatrixCut cut_;
  std::uint32_t m_;
  std::vector<RecordPlace> order_;  ///< empty: the records are in order
  std::uint64_t next_ = 0;
  BlockIndex at_;
  std::vector<std::uint32_t> elements_;
  std::uint32_t rows_inside_ = 0;
  std::uint32_t columns_inside_ = 0;
  std::vector<std::byte> buffer_;  ///< records [buffer_begin_, buffer_end_), or one record
  std::uint64_t buffer_begin_ = 0;
  std::uint64_t buffer_end_ = 0;
};

}  // namespace spmm::tools
