// Both operands sorted by counting and their pairs counted: work that wants nothing of the host before its end, so that
// it can be put on the stream while records are still on their way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/operands/operands.hpp"
#include "cuda/operands/upload.hpp"

namespace spmm::cuda {

/// Stream: everything in the order of memory.stream(). Threads: one at a time.
class CountedSort {
 public:
  /// Null if both matrices had better be sorted otherwise: they have many blocks, or long rows, or need more memory
  /// than most_bytes. The references must outlive it, `parsed` its keys alone, until the stream is done with them.
  static std::unique_ptr<CountedSort> make(const ParsedOperands& parsed, std::uint32_t nb, std::uint64_t most_bytes,
                                           DeviceMemory& memory);
  CountedSort(const CountedSort&) = delete;
  CountedSort& operator=(const CountedSort&) = delete;
  /// Waits if something may still be written to the host.
  ~CountedSort();

  /// Whether count() counts pairs: there are two matrices.
  [[nodiscard]] bool counts_pairs() const { return num_offsets_ != 0; }
  /// Puts the sort on the stream (stage build).
  void sort(const ParsedOperands& parsed);
  /// Puts the counting on the stream, and what brings everything that was found to the host (stage count).
  void count();
  /// Waits, and hands over; keys of `parsed` go. False, and `parsed` as it was, if a row is too long for it or a
  /// block comes twice.
  bool take(ParsedOperands& parsed, SortedOperands& out);

 private:
  CountedSort(const ParsedOperands& parsed, std::uint32_t nb, DeviceMemory& memory);

  /// What comes to the host, offsets of runs behind it; zeros before.
  struct Found {
    std::array<kernels::SortFindings, 2> sorts;
    kernels::MatchTotals totals;
  };
  /// A matrix on its way.
  struct Side {
    std::uint64_t num_blocks = 0;
    CompressedRows index{};
    DeviceBuffer<std::uint32_t> numbers{};
    DeviceBuffer<std::uint64_t> keys{};
    DeviceBuffer<std::uint64_t> entries{};
  };

  [[nodiscard]] Found* found() const;
  [[nodiscard]] std::uint64_t counter_words() const;

  DeviceMemory& memory_;
  std::uint32_t nb_;
  unsigned key_bits_;
  std::array<Side, 2> sides_;
  std::uint64_t num_counts_;             // of both sides
  std::uint64_t num_offsets_ = 0;        // of runs of rows of A, at most; 0 = pairs are not counted
  DeviceBuffer<std::uint32_t> counts_;   // [counter_words]; behind them Found and offsets of runs
  DeviceBuffer<std::uint64_t> borders_;  // [num_counts + 1]
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<std::uint32_t> b_row_index_;  // [blocks of A]
  DeviceBuffer<std::uint64_t> row_pairs_;    // [rows of A at most]
  DeviceBuffer<std::uint64_t> row_offsets_;  // [rows of A at most + 1]
  PinnedTable table_;                        // Found, then offsets
  Event done_;
  bool is_queued_ = false;
};

}  // namespace spmm::cuda
