// A matrix in a scratch file, its records sorted: what a range of the product needs is read in long pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "io/files/scratch_file.hpp"
#include "spmm/stream.hpp"

namespace spmm::out_of_core {

/// How a matrix is sorted, with how much memory, and to where in the file.
struct Sorting {
  /// Block columns behind each column slab, ascending, the last one past all columns. Records come slab by slab, in
  /// each row by row, columns ascending. One slab: the order of the whole matrix.
  std::vector<std::uint64_t> slab_ends{kAllColumns};
  std::uint64_t file_offset = 0;
  std::uint64_t memory_bytes = 0;

  static constexpr std::uint64_t kAllColumns = std::uint64_t{1} << 32;
};

/// A range of records.
struct RecordRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  [[nodiscard]] std::uint32_t size() const { return end - begin; }
};

/// The sorted records of a matrix. Every record was checked: none is out of range, none occurs twice.
class SortedMatrix {
 public:
  /// Reads the source two or three times, and writes its records once or twice; everything else comes from the file.
  /// Memory: sorting.memory_bytes. Errors: FormatError (index out of range, the same block twice, changed meanwhile),
  /// OutOfMemory (too little to sort in), IoError, io::ScratchFull, Interrupted.
  SortedMatrix(const Source& source, const io::ScratchFile& file, const Sorting& sorting, const Run& run);

  [[nodiscard]] const MatrixHeader& header() const { return header_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The records of each column slab.
  [[nodiscard]] const std::vector<RecordRange>& slabs() const { return slabs_; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const;

 private:
  struct Parts;
  BlockIndex checked_index(const std::byte* record) const;
  void distribute(const Source& source, const Parts& parts, const Run& run) const;
  void sort_part(const Source& source, const Parts& parts, std::size_t part, const Run& run) const;
  /// Both return a position that occurs twice, if one does.
  using ReadPart = std::function<void(std::uint64_t first, std::uint64_t count, std::byte* to)>;
  std::optional<BlockIndex> sort_whole(const ReadPart& read_part, RecordRange records) const;
  std::optional<BlockIndex> sort_short(const ReadPart& read_part, RecordRange records) const;

  MatrixHeader header_;
  std::string name_;
  const io::ScratchFile& file_;
  std::uint64_t offset_;
  std::uint64_t record_bytes_;
  std::vector<RecordRange> slabs_;
};

/// Some ranges of the records of a sorted matrix, all of one column slab, as a source. Memory: kRangeBytes for each
/// range.
class RangesSource : public Source {
 public:
  static constexpr std::uint64_t kRangeBytes = sizeof(RecordRange) + sizeof(std::uint64_t);

  /// Values: ranges ascending and not empty. The matrix must outlive it.
  RangesSource(const SortedMatrix& matrix, std::vector<RecordRange> ranges);

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
