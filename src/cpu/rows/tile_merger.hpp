// One thread's work on result rows of small blocks: products are added to an accumulator of tiles as they are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/digit_sorter.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/operands/tile_operand.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/simd/tile_kernel.hpp"

namespace spmm::cpu {

/// What is multiplied, shared by all threads.
struct TileProduct {
  const PackedOperand& a;  ///< columns replaced by link_rows; blocks not padded
  const TileOperand& b;
  TileKernel kernel;
  std::uint32_t m;
  std::uint32_t b_bound;  ///< no element of B is larger
  std::uint32_t blocks_per_side;
};

/// Rows whose tiles lie within a window are summed there, slot by tile column; others are halved until they do, or
/// until their tiles are few enough to be sorted, slot by rank. Memory: bounded, however long rows are
/// (cpu/simd/layout.cpp). Threads: one.
class TileMerger {
 public:
  TileMerger(const TileProduct& product, const Run& run);

  /// Adds the result blocks of a row, columns [col_begin, col_end), to the output.
  /// Values: col_begin is rounded down to the blocks of a tile; col_end a multiple of them, or the end. Errors:
  /// Interrupted, what the output throws.
  void merge(std::uint32_t row, std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end, RecordWriter& out);

 private:
  /// What lies between two tile columns.
  struct Survey {
    std::uint32_t first = 0;  ///< tile columns that occur
    std::uint32_t last = 0;
    std::uint64_t num_tiles = 0;
  };

  /// Of an accumulator: slot 0 is tile column `base`, and slots [begin, end) may be touched.
  struct Slots {
    std::uint32_t base;
    std::uint32_t begin;
    std::uint32_t end;
  };

  void fetch_rows_ahead() const;
  template <class Body>
  void for_segments(std::uint32_t begin, std::uint32_t end, const Body& body) const;
  [[nodiscard]] Survey survey(std::uint32_t begin, std::uint32_t end) const;
  void merge_tiles(std::uint32_t begin, std::uint32_t end, RecordWriter& out);
  void merge_whole(std::uint32_t begin, std::uint32_t end, RecordWriter& out);
  void merge_window(std::uint32_t begin, std::uint32_t end, const Slots& slots, RecordWriter& out);
  void merge_sorted(std::uint32_t begin, std::uint32_t end, RecordWriter& out);
  void list_and_write(const Slots& slots, RecordWriter& out);
  void add_segment(std::uint32_t x, std::uint32_t first, std::uint32_t last, const std::uint32_t* slots);
  void run_kernel();
  void order_touched();
  void write(bool by_number, RecordWriter& out);

  const TileProduct& product_;
  const Run& run_;
  std::uint32_t tile_columns_;
  TileMergeSizes sizes_;
  std::uint32_t window_ = sizes_.window;
  std::uint32_t row_ = 0;    // of the compressed A
  bool saturates_ = false;   // sums of the row might pass the largest u32
  bool is_crowded_ = false;  // as many pairs as slots: looking at all of these costs little
  bool lists_ = true;        // touched slots are listed; else all are examined
  AlignedArray<TileSegment> segments_;
  std::uint32_t num_segments_ = 0;
  std::uint64_t tiles_since_check_ = 0;
  AlignedArray<std::uint32_t> values_;  // of sums_
  AlignedArray<std::uint8_t> fresh_;
  AlignedArray<std::uint32_t> touched_;
  TileSums sums_{};
  std::uint32_t num_touched_ = 0;
  AlignedArray<std::uint64_t> marks_;    // a bit per slot that is touched; all 0 between rows
  AlignedArray<std::uint64_t> summary_;  // a bit per word of marks_ that is not 0
  AlignedArray<std::uint64_t> keyed_;    // tiles to sort, where a window does not hold all columns
  AlignedArray<std::uint64_t> scratch_;
  DigitSorter sorter_;
  AlignedArray<std::uint32_t> ranks_;    // of the sorted tiles, segment by segment
  std::vector<std::byte> tile_records_;  // of one tile, where a buffer does not hold them all
};

}  // namespace spmm::cpu
