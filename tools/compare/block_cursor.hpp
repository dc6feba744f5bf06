// Walks over the blocks of a matrix file in the order of (i, j).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/records/head.hpp"
#include "spmm/types.hpp"
#include "tools/common/matrix_file.hpp"

namespace spmm::tools {

/// One block after the other, by (i, j), from a starting record on. A file whose records lie in that order is read
/// front to back; for another one an index of its blocks is sorted first, if that is allowed. Memory: 4 MB, and for an
/// index 16 bytes per block. Errors: FormatError (index out of range, a block twice, records out of order where no
/// index is allowed), IoError, Interrupted.
class BlockCursor {
 public:
  /// A record and the block that it holds.
  struct Entry {
    BlockIndex at;
    std::uint64_t record;
  };

  BlockCursor(const MatrixFile& matrix, std::uint64_t first_record, bool any_order);

  [[nodiscard]] bool done() const { return next_ == end_; }
  [[nodiscard]] BlockIndex index() const { return read_index(record()); }

  /// The packed record of the block. Shapes: [record_bytes].
  [[nodiscard]] const std::byte* record() const { return current_; }

  void advance();

 private:
  [[nodiscard]] bool is_ordered();
  void build_index();
  void load();
  void load_in_order();
  void check_step(BlockIndex before, BlockIndex here, std::uint64_t record) const;
  [[nodiscard]] std::uint64_t record_number(std::uint64_t place) const {
    return order_.empty() ? place : order_[place - first_].record;
  }

  const MatrixFile& matrix_;
  std::uint64_t first_;
  std::uint64_t end_;
  std::uint64_t next_;             ///< place of the current block: the record number, or first_ + place in order_
  std::vector<Entry> order_;       ///< empty: the records are in order
  std::vector<std::byte> buffer_;  ///< records [buffer_begin_, buffer_end_) of the file, or one record
  std::uint64_t buffer_begin_ = 0;
  std::uint64_t buffer_end_ = 0;
  const std::byte* current_ = nullptr;
};

}  // namespace spmm::tools
