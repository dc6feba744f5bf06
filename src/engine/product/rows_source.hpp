// Some block rows of a matrix, as a separate source.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// The records of another source whose block row (or block column) lies in a range, in the same order, with the header
/// of the whole but for the number of blocks. Messages name records as they are in the other source.
/// Errors: of records outside the range, only block indices are checked.
/// Memory: 4 bytes for each 64 KB of the other source, 256 KB at most. Where the records of the range lie together, as
/// in a file sorted by rows, only they are read from then on, and nothing is copied. Otherwise read() reads on from the
/// nearest known place and leaves out what is not in the range; it takes a buffer of 64 KB, or 1 / 65,536 of the
/// source if that is more.
class RowsSource final : public Source {
 public:
  /// Reads all of `whole` once to count. Values: key = BlockIndex::i, or j for rows of the transpose; `rows` lie within
  /// the matrix. `whole` must outlive it. Errors: FormatError (an index out of range), Interrupted.
  RowsSource(const Source& whole, RowRange rows, std::uint32_t BlockIndex::*key, const Run& run);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void prefetch() const override { whole_.prefetch(); }
  [[nodiscard]] std::uint64_t original_record(std::uint64_t record) const override {
    return whole_.original_record(place_of(record));
  }
  [[nodiscard]] std::string place(std::uint64_t record) const override { return whole_.place(place_of(record)); }
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override { return whole_.original_index(index); }
  void check_unchanged() const override { whole_.check_unchanged(); }

 private:
  /// Calls take(record of the other source, its bytes) for records of the range from `first` on, until it returns
  /// false. Errors: FormatError if the other source has changed.
  template <class Take>
  void for_records(std::uint64_t first, const Take& take) const;
  /// Where a record is in the other source.
  [[nodiscard]] std::uint64_t place_of(std::uint64_t record) const;

  const Source& whole_;
  RowRange rows_;
  std::uint32_t BlockIndex::*key_;
  MatrixHeader header_;
  std::uint64_t piece_records_ = 1;    ///< of the other source
  std::vector<std::uint32_t> before_;  ///< [pieces + 1] records of the range in front of each piece
  bool lies_together_ = false;
  std::uint64_t first_record_ = 0;  ///< of the range in the other source
};

}  // namespace spmm
