// The block rows that a matrix stores, numbered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/memory/aligned_array.hpp"
#include "base/run/pieces.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Numbers stored block rows: by themselves where most rows hold blocks, else by their place in a sorted list.
class RowSlots {
 public:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu;

  /// Memory: 4 bytes per record where few rows hold blocks, and as for_pieces(). Errors: as for_pieces().
  RowSlots(const Source& source, std::uint64_t memory_bytes, const Run& run);

  /// These rows alone. Values: ascending.
  explicit RowSlots(AlignedArray<std::uint32_t> rows) : rows_(std::move(rows)), size_(rows_.size()) {}

  /// Upper bound of size() and of the bytes that numbering takes, from the header alone.
  static std::uint64_t most_slots(const MatrixHeader& header);
  static std::uint64_t most_bytes(const MatrixHeader& header);

  /// All numbers are below this one.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// kNone where the row is known to hold no block. Values: row < blocks_per_side.
  [[nodiscard]] std::uint32_t slot(std::uint32_t row) const {
    if (rows_.size() == 0) return size_ == 0 ? kNone : row;
    const std::uint32_t* const found = std::lower_bound(rows_.begin(), rows_.end(), row);
    return found != rows_.end() && *found == row ? static_cast<std::uint32_t>(found - rows_.begin()) : kNone;
  }

  [[nodiscard]] std::uint32_t row(std::uint64_t slot) const {
    return rows_.size() == 0 ? static_cast<std::uint32_t>(slot) : rows_[slot];
  }

 private:
  AlignedArray<std::uint32_t> rows_;  // ascending; empty: all rows have a slot, their number
  std::uint64_t size_ = 0;
};

}  // namespace spmm
