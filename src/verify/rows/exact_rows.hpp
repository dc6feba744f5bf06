// Exact sums of chosen block rows of A B, for rows that equations cannot decide. Not the arithmetic of the kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/inputs.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "verify/sums/block_sums.hpp"
#include "verify/sums/row_slots.hpp"

namespace spmm {

/// What to compute of a block of C.
enum class WantedSum : std::uint8_t {
  none,
  exact,
  until_saturated,  ///< any part of the sums that reaches kMaxVal everywhere, else the exact ones
};

/// Operand blocks in memory, by block rows.
struct StoredBlocks {
  AlignedArray<std::uint64_t> begins;  ///< [rows + 1]
  AlignedArray<std::uint32_t> cols;    ///< [blocks] within each row in any order
  AlignedArray<std::uint16_t> values;  ///< [blocks, m, m]
};

/// One block row of C within a slab of block columns. Threads: one.
class ExactRow {
 public:
  /// Finds the blocks that have pairs. Memory: a few words for each of them.
  ExactRow(const StoredBlocks& a, std::uint64_t a_row, const StoredBlocks& b, const RowSlots& b_rows, std::uint32_t m);

  /// Block columns with pairs, and how many each has. Values: any order.
  [[nodiscard]] std::span<const std::uint32_t> cols() const { return cols_; }
  [[nodiscard]] std::uint64_t pairs(std::uint32_t place) const { return pairs_[place]; }
  /// The place of a column in cols(); none if it has no pair.
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu;
  [[nodiscard]] std::uint32_t find(std::uint32_t col) const;

  /// Shapes: wanted [cols]. Memory: 8 m^2 bytes for each wanted block. Errors: OutOfMemory, Interrupted.
  void multiply(std::span<const WantedSum> wanted, AddProduct add_product, const Run& run);
  /// Behind multiply(), of a wanted block. Shapes: [m, m].
  [[nodiscard]] const std::uint64_t* sums(std::uint32_t place) const { return sums_.data() + sum_at_[place]; }
  /// Pairs that multiply() has gone through.
  [[nodiscard]] std::uint64_t num_multiplied() const { return num_multiplied_; }

 private:
  std::uint32_t place_of(std::uint32_t col);
  void grow();
  [[nodiscard]] std::uint64_t bucket_of(std::uint32_t col) const;

  const StoredBlocks& a_;
  std::uint64_t a_row_;
  const StoredBlocks& b_;
  const RowSlots& b_rows_;
  std::uint32_t m_;
  std::vector<std::uint32_t> buckets_;  // places in cols_, open addressing
  std::vector<std::uint32_t> cols_;
  std::vector<std::uint64_t> pairs_;
  std::vector<std::uint64_t> sum_at_;
  AlignedArray<std::uint64_t> sums_;
  std::uint64_t num_multiplied_ = 0;
};

/// Calls visit(number of the row in `rows`, row, whether it is the first, the last slab) for every row in every slab of
/// block columns, the slabs of one row one after the other. Shapes: rows ascending.
/// Memory: about memory_bytes for operands (0 = no limit), in addition to what visit() takes. Threads: visit from
/// several at once, but of one row by one. Errors: FormatError, OutOfMemory, Interrupted, what the sources throw.
void for_exact_rows(const Inputs& inputs, const RowSlots& b_rows, std::span<const std::uint32_t> rows,
                    std::uint64_t memory_bytes, const Run& run,
                    const std::function<void(std::size_t number, ExactRow& row, bool first, bool last)>& visit);

}  // namespace spmm
