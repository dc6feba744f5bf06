// Some records of a matrix, as a separate source.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

/// The records of another source that a function picks, in the same order, with the header of the whole but for the
/// number of blocks. Messages name records as they are in the other source.
/// Errors: of other records, only block indices are checked.
/// Memory: 4 bytes for each 16 KB of the other source, 256 KB at most. Where the picked records lie together, as some
/// rows in a file sorted by rows, only they are read from then on, and nothing is copied. Otherwise read() reads on
/// from the nearest known place; it takes a buffer of 16 KB, or 1 / 65,536 of the source if that is more.
class PickedSource final : public Source {
 public:
  using Picks = std::function<bool(BlockIndex at)>;

  /// Reads all of `whole` once to count. `whole` must outlive it. Threads: picks() is called by several.
  /// Errors: FormatError (an index out of range), Interrupted.
  PickedSource(const Source& whole, Picks picks, const Run& run);
  /// The records of some block rows. Values: key = BlockIndex::i, or j for rows of the transpose.
  PickedSource(const Source& whole, RowRange rows, std::uint32_t BlockIndex::*key, const Run& run)
      : PickedSource(
            whole, [=](BlockIndex at) { return at.*key >= rows.first && at.*key < rows.end; }, run) {}

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
  /// Calls take(record of the other source, its bytes) for picked records from `first` on, until it returns false.
  /// Errors: FormatError if the other source has changed.
  template <class Take>
  void for_records(std::uint64_t first, const Take& take) const;
  /// Where a record is in the other source.
  [[nodiscard]] std::uint64_t place_of(std::uint64_t record) const;

  const Source& whole_;
  Picks picks_;
  MatrixHeader header_;
  std::uint64_t piece_records_ = 1;    ///< of the other source
  std::vector<std::uint32_t> before_;  ///< [pieces + 1] picked records in front of each piece
  bool lies_together_ = false;
  std::uint64_t first_record_ = 0;  ///< of the picked ones in the other source
};

}  // namespace spmm::io
