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

/// Bytes [begin, end) of a scratch file with sorted records.
struct SortedPart {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Merges parts; take(records) gets all records in order, piece by piece, and may change them. With `adds`, elements of
/// results with the same index are added and saturated. Memory: memory_bytes, or a record for each part and one more.
/// Errors: IoError, what take() throws.
void merge_parts(const io::ScratchFile& file, std::span<const SortedPart> parts, bool adds, std::uint64_t record_bytes,
                 std::uint64_t memory_bytes, const std::function<void(std::span<std::byte> records)>& take);

/// The records of a source in a scratch file, sorted by row, then column. Each was checked: none is out of range, none
/// occurs twice.
class SortedMatrix {
 public:
  /// Reads the source once. As many records as fit in memory are sorted at a time; if these are not all, each part is
  /// written to spare_offset and behind, and merged from there. Memory: memory_bytes; then piece_bytes. Values: `file`
  /// must outlive it. Errors: FormatError (index out of range, a block twice), IoError, OutOfMemory (the disk is full),
  /// Interrupted, what the source throws.
  SortedMatrix(const Source& source, const io::ScratchFile& file, std::uint64_t offset, std::uint64_t spare_offset,
               std::uint64_t memory_bytes, std::uint64_t piece_bytes, const Run& run);

  [[nodiscard]] const MatrixHeader& header() const { return header_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// As Source::read().
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
    file_.read_at(offset_ + first * record_bytes_, {dst, count * record_bytes_});
  }

  /// One index; read in pieces. Threads: one at a time.
  BlockIndex index(std::uint32_t record);

 private:
  MatrixHeader header_;
  std::string name_;
  const io::ScratchFile& file_;
  std::uint64_t offset_;
  std::uint64_t record_bytes_;
  AlignedArray<std::byte> piece_;  // around the index that was read last
  RecordRange in_piece_;
};

/// Some ranges of the records of a sorted matrix. Memory: kRangeBytes for each range.
class RangesSource final : public Source {
 public:
  static constexpr std::uint64_t kRangeBytes = sizeof(RecordRange) + sizeof(std::uint64_t);

  /// Values: ranges ascending and not empty. The matrix must outlive it.
  RangesSource(const SortedMatrix& whole, std::vector<RecordRange> ranges);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void check_unchanged() const override {}

 private:
  const SortedMatrix& whole_;
  MatrixHeader header_;
  std::vector<RecordRange> ranges_;
  std::vector<std::uint64_t> firsts_;  ///< number of the first record of each range in this source
};

}  // namespace spmm::out_of_core
