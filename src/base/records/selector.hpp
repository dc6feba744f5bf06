// Drops elements of finished records: the one place where a Selection is applied on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "spmm/selection.hpp"

namespace spmm {

/// The rank of an element in its row: the larger value goes first, of equal ones the lower column.
constexpr std::uint64_t selection_rank(std::uint32_t value, std::uint32_t column) {
  return std::uint64_t{value} << 32 | ~column;
}

/// Records of one block row after the other, each in any number of pieces. Memory: of a row, with keep: about twice
/// the elements that are kept. Threads: one.
class RecordSelector {
 public:
  RecordSelector(const Selection& selection, std::uint32_t m);

  /// Bytes that it holds at most. Values: num_columns = block columns of C.
  static std::uint64_t memory_bytes(const Selection& selection, std::uint32_t m, std::uint32_t num_columns);

  /// Drops elements of a piece in place, and records without elements. Returns where the others end: with keep at
  /// `begin`, since what is kept comes with end_row(). Shapes: whole output records of one block row.
  std::byte* select(std::byte* begin, const std::byte* end);

  /// No more records of the block row come.
  void end_row();
  /// Then: the next records with the elements that keep has left of the row, in order; valid until the next call. None
  /// without keep, and when all have been taken.
  [[nodiscard]] std::span<const std::byte> take_kept();

  /// Elements that were dropped since the last call, not zero and not below the triangle.
  [[nodiscard]] std::uint64_t take_num_dropped() { return std::exchange(num_dropped_, 0); }

 private:
  std::byte* select_elements(std::byte* begin, const std::byte* end);
  void offer(std::uint32_t row, std::uint64_t rank);
  void prune(std::uint32_t row);

  const Selection selection_;
  const std::uint32_t m_;
  const std::size_t record_bytes_;
  std::uint64_t num_dropped_ = 0;
  std::uint32_t block_row_ = 0;
  std::vector<std::vector<std::uint64_t>> best_;                   // [m] ranks of elements of a row, by their columns
  std::vector<std::uint64_t> least_;                               // [m] smaller ranks are not among the best
  std::vector<std::uint64_t> ranks_;                               // while one is looked for
  std::vector<std::pair<std::uint64_t, std::uint32_t>> elements_;  // of the block row: place, value
  std::size_t num_taken_ = 0;                                      // of these
  std::vector<std::byte> kept_;                                    // records
};

}  // namespace spmm
