// B spread over the ranks by block rows: each row has a home, and ranks fetch the rows that they meet.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "cpu/operands/order/radix_sort.hpp"
#include "mpi/exchange/record_store.hpp"
#include "mpi/exchange/transfers.hpp"

namespace spmm::mpi {

/// Every member is collective, but for those that speak of what is at home here. Memory: the rows that are at home
/// here, and 16 bytes for each of their blocks; as much again while they are sorted, when nothing else is there yet.
class BRows {
 public:
  /// Values: record_bytes = that are sent of each record.
  BRows(const Group& group, StoreLimit& limit, std::uint64_t record_bytes)
      : group_(group), limit_(limit), store_(record_bytes, limit) {}

  /// Brings every record to its home. Values: samples = sampled_rows() of this rank.
  /// Errors: FormatError (index out of range), OutOfMemory, what the source throws.
  void distribute(const Source& b, const std::vector<std::uint32_t>& samples);
  /// Sorts what is at home here; no other rank takes part. Errors: FormatError (the same block twice), OutOfMemory.
  void sort(const Source& b, unsigned num_threads);

  /// First rows of the homes 1 ..
  [[nodiscard]] const std::vector<std::uint32_t>& first_rows() const { return first_rows_; }
  /// Blocks at home here: all, and of one row.
  [[nodiscard]] std::uint64_t size_here() const { return order_.size(); }
  [[nodiscard]] std::uint64_t size_here(std::uint32_t row) const;
  /// Block columns of what is at home here, ascending.
  [[nodiscard]] std::vector<std::uint32_t> columns_here(std::uint32_t blocks_per_side) const;

  /// Blocks of rows of B. Shapes: rows ascending, result as rows.
  [[nodiscard]] std::vector<std::uint32_t> count(const std::vector<std::uint32_t>& rows) const;
  /// Adds the records of rows. Shapes: rows ascending. Errors: OutOfMemory.
  void fetch(const std::vector<std::uint32_t>& rows, RecordStore& to) const;
  /// After the last fetch.
  void clear();

 private:
  [[nodiscard]] std::vector<Bytes> by_home(const std::vector<std::uint32_t>& rows) const;
  /// The blocks of a row at home here, as positions in order_. Values: none of them is before `from`.
  [[nodiscard]] Share find(std::uint32_t row, std::uint64_t from = 0) const;

  Group group_;
  StoreLimit& limit_;
  RecordStore store_;
  std::vector<std::uint32_t> first_rows_;
  AlignedArray<cpu::SortItem> order_;  // by (i, j): the key's high and low half, and the record
};

}  // namespace spmm::mpi
