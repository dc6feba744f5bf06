// Operands in a scratch file, their records in the order of slabs: those are read in long pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/inputs.hpp"
#include "base/records/sorted_source.hpp"
#include "base/run/run.hpp"
#include "engine/slabs/cut.hpp"
#include "io/files/scratch_file.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::slabs {

/// How a matrix is sorted: row by row or column by column, with how much memory, and to where in the file.
struct Sorting {
  Along along = Along::rows;
  std::uint64_t file_offset = 0;
  std::uint64_t memory_bytes = 0;
};

/// Thrown where too many records lie too close together to be sorted in parts.
struct CannotSort {};

/// A range of records.
struct RecordRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// The sorted records of a matrix. Every record was checked: none is out of range, none occurs twice.
class SortedMatrix {
 public:
  /// Reads the source two or three times, and writes its records once or twice; everything else comes from the file.
  /// Memory: sorting.memory_bytes. Errors: FormatError (index out of range, the same block twice, changed meanwhile),
  /// IoError, io::ScratchFull, CannotSort, Interrupted.
  SortedMatrix(const Source& source, const io::ScratchFile& file, const Sorting& sorting, const Run& run);

  [[nodiscard]] const MatrixHeader& header() const { return header_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Along along() const { return along_; }
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
  Along along_;
  const io::ScratchFile& file_;
  std::uint64_t offset_;
  std::uint64_t record_bytes_;
};

/// Some ranges of the records of a sorted matrix, as a source. Memory: the ranges, and 8 bytes for each.
class RangesSource : public SortedSource {
 public:
  /// Values: ranges ascending and not empty. The matrix must outlive it.
  RangesSource(const SortedMatrix& matrix, std::vector<RecordRange> ranges);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return matrix_.name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  [[nodiscard]] bool is_sorted() const override { return matrix_.along() == Along::rows; }
  void check_unchanged() const override {}

 private:
  const SortedMatrix& matrix_;
  MatrixHeader header_;
  std::vector<RecordRange> ranges_;
  std::vector<std::uint64_t> firsts_;  ///< number of the first record of each range in this source
};

/// All records of a sorted matrix that is not empty.
inline RangesSource all_records(const SortedMatrix& matrix) {
  return {matrix, {{.begin = 0, .end = matrix.header().num_blocks}}};
}

/// Both operands of a product, sorted into one scratch file.
class ScratchOperands {
 public:
  /// In the order that `execution` wants: both by rows, so that one file that is both is sorted once, or B by columns.
  /// Errors: as SortedMatrix.
  ScratchOperands(const Inputs& inputs, io::ScratchFile file, const plan::Execution& execution, const Run& run);

  [[nodiscard]] const SortedMatrix& a() const { return a_; }
  [[nodiscard]] const SortedMatrix& b() const { return b_ ? *b_ : a_; }

 private:
  io::ScratchFile file_;
  SortedMatrix a_;
  std::optional<SortedMatrix> b_;
};

/// Sorts the operands into a scratch file in one of run.scratch_folders; null, and why in execution.why_no_scratch, if
/// it cannot be made, has too little room, or records cannot be sorted. Errors: FormatError, IoError, Interrupted.
std::unique_ptr<ScratchOperands> sort_operands(const Inputs& inputs, const Run& run, plan::Execution& execution);

}  // namespace spmm::slabs
