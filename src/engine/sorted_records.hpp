// Records that are sorted in a scratch file, and a source of some of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/head.hpp"
#include "base/run/run.hpp"
#include "io/files/scratch_file.hpp"
#include "spmm/stream.hpp"

namespace spmm::out_of_core {

/// A range of records.
struct RecordRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  [[nodiscard]] std::uint32_t size() const { return end - begin; }
};

/// Sorted records that lie together in a scratch file, which must outlive it.
class SortedRecords {
 public:
  /// Memory: piece_bytes, or a record.
  SortedRecords(const io::ScratchFile& file, std::uint64_t offset, std::uint64_t count, std::uint64_t record_bytes,
                std::uint64_t piece_bytes);

  [[nodiscard]] std::uint64_t size() const { return count_; }
  /// As Source::read().
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
    file_->read_at(offset_ + first * record_bytes_, {dst, count * record_bytes_});
  }

  /// One record, valid until the next call; read in pieces. Threads: one at a time.
  const std::byte* at(std::uint64_t record);
  BlockIndex index(std::uint64_t record) { return read_index(at(record)); }

  /// The same records with another piece.
  [[nodiscard]] SortedRecords with_piece(std::uint64_t piece_bytes) const {
    return {*file_, offset_, count_, record_bytes_, piece_bytes};
  }

 private:
  const io::ScratchFile* file_;
  std::uint64_t offset_;
  std::uint64_t count_;
  std::uint64_t record_bytes_;
  AlignedArray<std::byte> piece_;  // records from piece_begin_ to piece_end_
  std::uint64_t piece_begin_ = 0;
  std::uint64_t piece_end_ = 0;
};

/// Sorts the records of a source by row, then column, into a scratch file from `offset` on, and checks each: none is
/// out of range, none occurs twice. Reads the source once. As many records as fit in memory are sorted at a time; if
/// these are not all, each part is written to spare_offset and behind, and merged from there. Memory: memory_bytes;
/// then piece_bytes. Errors: FormatError, IoError, OutOfMemory (the disk is full), Interrupted, what the source throws.
SortedRecords sort_records(const Source& source, const io::ScratchFile& file, std::uint64_t offset,
                           std::uint64_t spare_offset, std::uint64_t memory_bytes, std::uint64_t piece_bytes,
                           const Run& run);

/// Merges parts; take(records) gets all records in order, piece by piece, and may change them. With `adds`, elements of
/// results with the same index are added and saturated. Memory: buffer_bytes, or a record. Errors: IoError, what take()
/// throws.
void merge(std::span<SortedRecords> parts, bool adds, std::uint64_t record_bytes, std::uint64_t buffer_bytes,
           const std::function<void(std::span<std::byte> records)>& take);

/// Some ranges of the sorted records of another source, or a part of these. Memory: kRangeBytes for each range.
class RangesSource final : public Source {
 public:
  static constexpr std::uint64_t kRangeBytes = sizeof(RecordRange) + sizeof(std::uint64_t);

  /// Values: ranges ascending and not empty. Both must outlive it.
  RangesSource(const Source& source, const SortedRecords& sorted, std::vector<RecordRange> ranges);

  /// From now on it has `count` records of all from `first` on.
  void restrict_to(std::uint64_t first, std::uint64_t count) {
    first_ = first;
    header_.num_blocks = static_cast<std::uint32_t>(count);
  }

  [[nodiscard]] std::uint64_t num_ranges() const { return ranges_.size(); }

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return source_.name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void check_unchanged() const override {}

 private:
  const Source& source_;
  const SortedRecords& sorted_;
  MatrixHeader header_;
  std::vector<RecordRange> ranges_;
  std::vector<std::uint64_t> firsts_;  ///< number of the first record of each range in this source
  std::uint64_t first_ = 0;
};

}  // namespace spmm::out_of_core
