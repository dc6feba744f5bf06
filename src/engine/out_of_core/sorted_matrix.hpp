// A matrix in a scratch file, its records sorted: what a range of the product needs is read in long pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

/// Records by intervals of a key.
struct Parts {
  std::vector<std::uint64_t> ends{};    ///< [parts] behind the last key of each, ascending
  std::vector<std::uint64_t> begins{};  ///< [parts + 1] records in front of each

  [[nodiscard]] std::size_t size() const { return ends.size(); }
  [[nodiscard]] std::size_t of(std::uint64_t key) const;
};

/// What records are parted by: a number below 2^64 - 1.
using KeyOf = std::function<std::uint64_t(BlockIndex at)>;

/// Parts of at most most_records each, or of a single key. Reads the source once, and again while intervals with too
/// many records can be divided. Values: key_end = behind all keys. Memory: memory_bytes. Errors: as for_indices().
Parts cut_keys(const Source& source, const KeyOf& key_of, std::uint64_t key_end, std::uint64_t most_records,
               std::uint64_t memory_bytes, const Run& run);

/// The sorted records of a matrix. Every record was checked: none is out of range, none occurs twice.
class SortedMatrix {
 public:
  /// Sorts by row and column: reads the source two or three times, and writes its records once or twice, from
  /// file_offset on. Everything else comes from the file. Memory: memory_bytes. Errors: FormatError (index out of
  /// range, the same block twice, changed meanwhile), IoError, io::ScratchFull, Interrupted.
  SortedMatrix(const Source& source, const io::ScratchFile& file, std::uint64_t file_offset, std::uint64_t memory_bytes,
               const Run& run);
  /// The records of another one slab by slab, in each by row and column. Values: slabs = parts by block column.
  SortedMatrix(const SortedMatrix& by_rows, Parts slabs, std::uint64_t file_offset, std::uint64_t memory_bytes,
               const Run& run);

  [[nodiscard]] const MatrixHeader& header() const { return header_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The records of each column slab; without slabs all of them.
  [[nodiscard]] const std::vector<RecordRange>& slabs() const { return slabs_; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const;

 private:
  BlockIndex checked_index(const std::byte* record) const;
  void distribute(const Source& source, const KeyOf& key_of, const Parts& parts, std::uint64_t memory_bytes,
                  const Run& run) const;
  template <class Item>
  void sort_part(const Source& source, const Source& from, RecordRange records, const Run& run) const;

  MatrixHeader header_;
  std::string name_;
  const io::ScratchFile& file_;
  std::uint64_t offset_;
  std::uint64_t record_bytes_;
  std::vector<RecordRange> slabs_;
};

/// Some ranges of the records of a sorted matrix as a source. Memory: kRangeBytes for each range.
class RangesSource final : public Source {
 public:
  static constexpr std::uint64_t kRangeBytes = sizeof(RecordRange) + sizeof(std::uint64_t);

  /// Values: ranges ascending and not empty. The matrix must outlive it.
  RangesSource(const SortedMatrix& matrix, std::vector<RecordRange> ranges);
  /// All records.
  explicit RangesSource(const SortedMatrix& matrix) : RangesSource(matrix, {{0, matrix.header().num_blocks}}) {}

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return matrix_.name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void check_unchanged() const override {}

 private:
  const SortedMatrix& matrix_;
  MatrixHeader header_;
  std::vector<RecordRange> ranges_;
  std::vector<std::uint64_t> firsts_;  ///< number of the first record of each range in this source
};

}  // namespace spmm::out_of_core
