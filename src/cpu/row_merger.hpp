// One thread's work on result rows: finds the pairs, orders them by column, runs the kernel over them.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/aligned_array.hpp"
#include "cpu/kernels.hpp"
#include "cpu/operand.hpp"
#include "cpu/output_queue.hpp"
#include "cpu/radix_sort.hpp"

namespace spmm::cpu {

/// What is multiplied, shared by all threads.
struct RowProduct {
  const Operand& a;  ///< columns replaced by link_rows
  const Operand& b;
  Operands operands;
  MultiplyTiles kernel;
  std::uint32_t blocks_per_side;
};

/// A unit's output on its way to the queue.
class UnitOutput {
 public:
  UnitOutput(OutputQueue& queue, OutputQueue::Job& job, std::uint64_t record_bytes)
      : queue_(queue), job_(job), record_bytes_(record_bytes) {}

  /// Records that fit now, at least one: hands the buffer on if it is full.
  std::uint64_t room();
  [[nodiscard]] std::byte* position() const { return job_.data + job_.used_bytes; }
  void advance_to(const std::byte* end) { job_.used_bytes = static_cast<std::uint64_t>(end - job_.data); }

 private:
  OutputQueue& queue_;
  OutputQueue::Job& job_;
  std::uint64_t record_bytes_;
};

/// Memory: bounded, however long rows are (plan/host_bytes.hpp). Threads: one.
class RowMerger {
 public:
  explicit RowMerger(const RowProduct& product);

  /// Adds the result blocks of a row, columns [col_begin, col_end), to the output.
  /// Values: pairs = exact number of pairs of the whole row.
  void merge(std::uint32_t row, std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end, UnitOutput& out);

 private:
  /// Blocks [begin, end) of B, of one row, that meet block `a` of A.
  struct Segment {
    std::uint32_t a;
    std::uint32_t begin;
    std::uint32_t end;
  };

  void merge_by_columns(std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end, UnitOutput& out);
  void merge_long_column(std::uint32_t col, UnitOutput& out);
  void start_cursors(std::uint32_t col_begin);
  void collect_whole_row();
  bool collect_columns(std::uint32_t col_begin, std::uint32_t col_end);
  void order_pairs();
  void count_columns();
  void mark_columns();
  void place_pairs();
  void sort_pairs();
  void run_kernel(UnitOutput& out);
  [[nodiscard]] std::uint32_t first_at_least(std::uint32_t b_row, std::uint32_t col) const;

  const RowProduct& product_;
  std::uint32_t row_ = 0;  // of the compressed A
  std::vector<Segment> segments_;
  std::uint32_t num_pairs_ = 0;  // in segments_
  AlignedArray<PairRef> pairs_;  // ordered by column
  AlignedArray<Tile> tiles_;     // result blocks of pairs_
  std::uint32_t num_tiles_ = 0;
  AlignedArray<std::uint32_t> cursors_;   // next block of B for each block of A in the row
  AlignedArray<std::uint32_t> position_;  // [blocks_per_side] pairs per column, then their place; all 0 between rows
  AlignedArray<std::uint64_t> marks_;     // a bit per column that occurs
  AlignedArray<std::uint64_t> summary_;   // a bit per word of marks_ that is not 0
  AlignedArray<Keyed> keyed_;             // pairs to sort, where there are too many columns for position_
  AlignedArray<Keyed> scratch_;
  std::vector<std::byte> long_record_;  // part of a column with very many pairs
};

}  // namespace spmm::cpu
