// One thread's work on result rows: finds the pairs, orders them by column, runs the kernel over them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/digit_sorter.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/rows/accumulator.hpp"
#include "cpu/rows/arithmetic.hpp"

namespace spmm::cpu {

/// Memory: bounded, however long rows are (cpu/simd/layout.cpp). Threads: one.
class RowMerger {
 public:
  RowMerger(const RowProduct& product, const Run& run);

  /// Adds the result blocks of a row, columns [col_begin, col_end), to the output.
  /// Values: pairs = exact number of pairs of the whole row. Errors: Interrupted within a fraction of a second, what
  /// the output throws.
  void merge(std::uint32_t row, std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end, RecordWriter& out);

 private:
  /// B segment: blocks [begin, end) of B, of one row, that are multiplied by block `a` of A.
  struct Segment {
    std::uint32_t a;
    std::uint32_t begin;
    std::uint32_t end;
  };

  void fetch_rows_ahead() const;
  void add_segment(const Segment& segment);
  [[nodiscard]] bool has_cursors() const;
  void merge_by_columns(std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end, RecordWriter& out);
  void multiply_long_column(std::uint32_t col, RecordWriter& out);
  void add_part(std::uint32_t col, std::vector<std::uint32_t>& sums);
  void start_cursors(std::uint32_t col_begin);
  void collect_from(std::uint32_t col_begin);
  bool collect_columns(std::uint32_t col_begin, std::uint32_t col_end);
  void multiply_list(RecordWriter& out);
  void order_pairs();
  void fetch_columns(std::uint32_t segment) const;
  void mark_columns();
  void place_pairs();
  void sort_pairs();
  void rank_pairs();
  void run_kernel(RecordWriter& out);
  std::byte* multiply(const CBlockList& list, std::byte* out) const;
  [[nodiscard]] std::uint32_t first_at_least(std::uint32_t b_row, std::uint32_t col) const;

  const RowProduct& product_;
  const Run& run_;
  const MergeSizes sizes_;
  PackedBlocks operands_;           // with the arithmetic of the row
  std::uint32_t max_pairs_;         // of one list
  std::uint32_t row_ = 0;           // of the compressed A
  AlignedArray<Segment> segments_;  // with the pairs of the list
  std::uint32_t num_segments_ = 0;
  std::uint32_t num_pairs_ = 0;    // in segments_
  AlignedArray<PairRef> pairs_;    // ordered by column
  AlignedArray<CBlock> c_blocks_;  // of pairs_
  std::uint32_t num_c_blocks_ = 0;
  AlignedArray<std::uint32_t> cursors_;   // next block of B for each block of A in the row
  AlignedArray<std::uint32_t> position_;  // [blocks_per_side] pairs per column, then their place; all 0 between rows
  AlignedArray<std::uint64_t> marks_;     // a bit per column that occurs
  AlignedArray<std::uint64_t> summary_;   // a bit per word of marks_ that is not 0
  AlignedArray<std::uint64_t> keyed_;     // column and place in unsorted_, if columns are too many for position_
  AlignedArray<std::uint64_t> scratch_;
  AlignedArray<PairRef> unsorted_;
  DigitSorter sorter_;
  RowAccumulator accumulator_;
  std::vector<std::byte> part_record_;  // part of a C block with more pairs than a list holds
};

}  // namespace spmm::cpu
