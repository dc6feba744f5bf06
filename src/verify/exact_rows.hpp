// Chosen element rows of min(A B, 2^32 - 1) from the definition. Shares no arithmetic with the kernels of products.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/inputs.hpp"
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

/// Elements of some block columns of one block row.
struct ExactSums {
  std::uint64_t slot;                   ///< of the block row among those of A
  std::span<const std::uint32_t> cols;  ///< in any order
  std::uint32_t first_col;              ///< where `sums` begin
  std::span<const std::uint32_t> rows;  ///< chosen element rows of the block row, ascending
  const double* sums;                   ///< [cols - first_col, rows, m], whole numbers, 2^32 - 1 at most
};

/// Memory: B is loaded by ranges of block columns, for each of them A by ranges of block rows, so that all of it stays
/// within memory_bytes (0 = no limit) and bytes(). A block row of A and a block column of B are the least that it
/// takes. Errors: FormatError, Interrupted, what the sources throw; OutOfMemory, also if operands would be read for
/// minutes.
class ExactRows {
 public:
  /// Reads both operands once to count. Values: limit_bytes = of which memory_bytes are a part, for messages. Shapes:
  /// chosen [a_rows.size(), m], 1 for each element row that is wanted. Values: all arguments outlive it.
  ExactRows(const Inputs& inputs, const RowSlots& a_rows, const RowSlots& b_rows, const std::uint8_t* chosen,
            std::uint64_t memory_bytes, std::uint64_t limit_bytes, const Run& run);

  using Take = std::function<void(const ExactSums&)>;

  /// Block rows with chosen element rows.
  [[nodiscard]] std::uint64_t num_block_rows() const { return num_block_rows_; }
  /// Predicted seconds of compute().
  [[nodiscard]] double seconds() const;

  /// Threads: take() from several at once, also for one block row.
  void compute(const Take& take);

  /// The memory_bytes with which no block row or column is too long, and A is not read too often, whichever elements
  /// are wanted. Reads both operands once. Memory: limit_bytes. Errors: FormatError, Interrupted, what the sources
  /// throw.
  static std::uint64_t sure_memory_bytes(const Inputs& inputs, std::uint64_t limit_bytes, const Run& run);

  /// Memory beyond memory_bytes. Values: sizes of a_rows and b_rows.
  static std::uint64_t bytes(std::uint64_t a_slots, std::uint64_t b_slots) {
    return (2 * a_slots + 2 * b_slots + 4) * sizeof(std::uint32_t);
  }

 private:
  /// Blocks in memory by rows. Row x has [begins[x], begins[x + 1]); keys = column << 32 | place of the values.
  struct Blocks {
    AlignedArray<std::uint64_t> keys;
    AlignedArray<std::uint16_t> values;  // [blocks, m, m]
  };
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  struct Scratch;

  [[nodiscard]] bool is_chosen(std::uint64_t slot) const;
  /// Errors: OutOfMemory if a line of a source needs more memory_bytes.
  void require(std::uint64_t need_bytes, const char* line, std::uint64_t number, const Source& source,
               std::uint64_t num_blocks) const;
  /// Errors: always OutOfMemory, which says why and names a memory limit with these memory_bytes.
  [[noreturn]] void throw_needs(std::uint64_t need_bytes, const std::string& why) const;
  template <class Place>
  [[nodiscard]] Blocks load(const Source& source, std::uint64_t num, const Place& place);
  [[nodiscard]] Blocks load_a(Range slots);
  [[nodiscard]] std::uint32_t loaded_slot(BlockIndex at, Range cols) const;
  [[nodiscard]] std::uint64_t count_b(Range cols);
  [[nodiscard]] Blocks load_b(Range cols);
  void compute_columns(Range cols, const Take& take);
  void compute_rows(Range slots, const Blocks& a, Range cols, const Blocks& b, const Take& take);
  void compute_row(std::uint64_t slot, std::uint64_t first_block, const Blocks& a, Range cols, const Blocks& b,
                   Scratch& scratch, const Take& take);

  Inputs inputs_;
  const RowSlots& a_rows_;
  const RowSlots& b_rows_;
  const std::uint8_t* chosen_;
  std::uint64_t memory_bytes_;
  std::uint64_t limit_bytes_;
  const Run& run_;
  std::uint32_t m_;
  std::uint64_t elements_;
  AlignedArray<std::uint32_t> a_begins_;  // [slots of A + 1], of chosen rows, as if all of them were loaded
  AlignedArray<std::uint32_t> b_begins_;  // [slots of B + 2], of the blocks that are loaded
  AlignedArray<std::uint32_t> meets_;     // [slots of B] blocks of A that meet the row
  std::uint64_t num_block_rows_ = 0;
  std::uint64_t num_pairs_ = 0;  // of blocks
  double num_readings_ = 1;      // of A
  double rows_of_pair_ = 0;      // chosen element rows of A's block
  std::optional<Progress> progress_;
};

}  // namespace spmm
