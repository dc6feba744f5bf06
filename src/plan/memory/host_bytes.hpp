// Host memory of the CPU kernels. The sizes of their arrays stand here once: kernels allocate by them, and plans ask
// them before.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "plan/inputs/machine.hpp"
#include "plan/memory/packed_shape.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

enum class Side : std::uint8_t { a, b };

/// Host bytes of a product as a function of its shape.
struct HostBytes {
  std::uint64_t preparing = 0;   ///< peak while operands are read, sorted and packed
  std::uint64_t resident = 0;    ///< operands and lists while it multiplies
  std::uint64_t per_thread = 0;  ///< lists of one worker

  [[nodiscard]] std::uint64_t total(unsigned num_threads, std::uint64_t num_buffers, std::uint64_t buffer_bytes) const;
};

HostBytes row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa);
HostBytes reference_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa);

/// Both operands with the lists that link them: the peak while they are read and built, and what stays at most (while
/// they are linked).
std::uint64_t preparing_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape);
std::uint64_t prepared_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape);

/// Arrays of one operand.
struct OperandSizes {
  std::uint64_t rows = 0;  ///< that hold a block, at most
  std::uint64_t blocks = 0;
  std::uint64_t block_elements = 0;  ///< with padding

  /// Numbers and begins of rows, columns, values.
  [[nodiscard]] constexpr std::uint64_t bytes() const {
    return (2 * rows + 1 + blocks) * sizeof(std::uint32_t) + blocks * block_elements * sizeof(std::uint16_t);
  }
};
OperandSizes operand_sizes(const MatrixHeader& header, Side side, const PackedShape& shape);

/// Sorting the records of an operand: they are parted by the upper bits of their block rows; the rest of a position is
/// sorted in one word with the number of the record or, of side 1, with its only element.
struct KeyBits {
  unsigned index = 0;    ///< of a block row or block column
  unsigned bucket = 0;   ///< upper bits of the block row, which are not stored
  unsigned payload = 0;  ///< number of the record; side 1: its element

  [[nodiscard]] constexpr unsigned key() const { return 2 * index - bucket; }
  [[nodiscard]] constexpr std::uint64_t word_bytes() const { return key() + payload <= 64 ? 8 : 16; }
};
constexpr KeyBits key_bits(const MatrixHeader& header) {
  constexpr unsigned kElementBits = 16;
  constexpr unsigned kFewBuckets = 9;  // as many open cache lines fit the first-level cache
  constexpr unsigned kManyBuckets = 11;
  constexpr std::uint64_t kMostInFewBuckets = 1u << 26;  // blocks: a bucket and its copy fit the second-level cache
  const auto width = [](std::uint64_t count) {
    return count == 0 ? 0 : static_cast<unsigned>(std::bit_width(count - 1));
  };
  const unsigned index = width(header.blocks_per_side());
  return {.index = index,
          .bucket = std::min(index, header.num_blocks <= kMostInFewBuckets ? kFewBuckets : kManyBuckets),
          .payload = header.m == 1 ? kElementBits : width(header.num_blocks)};
}

/// The peak while an operand is built, its raw records not counted: words, their scratch, and what they become.
std::uint64_t build_bytes(const MatrixHeader& header, Side side, const PackedShape& shape);

/// Whether block rows of B are found through a table of all of them.
constexpr bool has_row_table(std::uint64_t blocks_per_side, std::uint64_t num_blocks) {
  constexpr std::uint64_t kFactor = 4;  // the table costs at most this times 4 bytes a block
  constexpr std::uint64_t kMin = 1u << 13;
  return blocks_per_side <= std::max(kMin, kFactor * num_blocks);
}

/// A bit for each of `size` places, and a bit for each word of these.
struct MarkSizes {
  std::uint64_t words = 0;
  std::uint64_t summary_words = 0;

  explicit constexpr MarkSizes(std::uint64_t size) : words((size + 63) / 64), summary_words((words + 63) / 64) {}
  [[nodiscard]] constexpr std::uint64_t bytes() const { return (words + summary_words) * sizeof(std::uint64_t); }
};

/// Lists of one worker of row-merge for sides above 3.
struct MergeSizes {
  std::uint32_t pairs = 0;    ///< entries of each list
  std::uint64_t columns = 0;  ///< each with a counter; 0: there are too many, pairs are sorted
  std::uint64_t sums = 0;     ///< of the accumulator, at most

  static constexpr std::uint64_t kMostSums = 1u << 15;  ///< 128 KB: as many as a kernel keeps (cpu/simd/kernels.hpp)
  static constexpr std::uint64_t kEntryBytes = 32;      ///< segment, pair, C block, cursor
  static constexpr std::uint64_t kSortedBytes = 24;     ///< key and its scratch, pair, where pairs are sorted
  static constexpr std::uint32_t kMaxPairs = 1u << 16;  ///< 512 kB, half of a usual second-level cache
  [[nodiscard]] std::uint64_t bytes() const;
};
MergeSizes merge_sizes(std::uint32_t blocks_per_side, std::uint64_t b_blocks);

/// Accumulator and lists of one worker of row-merge for sides to 3 (tiles.hpp).
struct TileMergeSizes {
  std::uint32_t window = 0;  ///< slots
  std::uint32_t slot_sums = 0;
  std::uint32_t sorted = 0;  ///< tiles that are sorted where a window does not hold all columns; 0: it does

  static constexpr std::uint64_t kSegmentBytes = 32;
  static constexpr std::uint64_t kSlotBytes = 5;     ///< in addition to its sums: fresh, touched
  static constexpr std::uint64_t kSortedBytes = 20;  ///< key and its scratch, rank
  [[nodiscard]] std::uint64_t bytes() const;
};
TileMergeSizes tile_merge_sizes(std::uint32_t blocks_per_side, std::uint32_t m, std::uint64_t b_blocks);

inline constexpr std::uint64_t kStoredBlockBytes = 12;  // reference: index and record number

}  // namespace spmm::plan
