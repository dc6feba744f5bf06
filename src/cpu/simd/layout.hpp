// How operands and lists of the CPU kernels lie in memory. Their sizes stand here once: kernels allocate by them, and
// the planner asks them through the registry (plan/registry.hpp).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "plan/choice.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {

using plan::Isa;
using plan::kAnySpan;

// Packed blocks

/// How elements of a block of B lie.
enum class Packing : std::uint8_t {
  rows,      ///< [inner, cols]
  row_pairs  ///< [inner / 2, cols, 2], as dot products of two elements want them
};

/// Packed blocks of both operands.
/// Layout: A [rows, inner] row-major; B as `packing` says. Padding is zero.
struct PackedShape {
  std::uint32_t m = 0;
  std::uint32_t rows = 0;
  std::uint32_t inner = 0;
  std::uint32_t cols = 0;
  Packing packing = Packing::rows;

  [[nodiscard]] constexpr std::uint64_t a_elements() const { return std::uint64_t{rows} * inner; }
  [[nodiscard]] constexpr std::uint64_t b_elements() const { return std::uint64_t{inner} * cols; }
};

/// Pairs of a row per block column from which row-merge visits all columns (cpu/rows/accumulator.hpp); infinite where
/// it never does.
/// Source: even products of 2,048 block columns, one thread of a Xeon: with 1, 2 and 4 pairs a column sums take, over
/// ordered pairs, 1.0, 0.89 and 0.81 (side 5), 1.17, 1.03 and 0.81 (6), 1.2, 1.1 and 0.92 (7), 1.2, 1.0 and 0.96 (8).
/// Side 4 with 0.4 pairs, two threads of a Zen 5, over products that went straight into records: 0.94 (AVX2 0.95).
constexpr double least_summed_pairs(Isa isa, std::uint32_t m) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr double kLeast[] = {0.4, 1.5, 2.5, 3, 2};  // sides 4 to 8
  return isa == Isa::portable || m < 4 || m > 8 ? kNever : kLeast[m - 4];
}

/// Blocks that are summed in tiles are not padded, nor are those of the portable kernels. Sides up to 8 are padded to 4
/// or 8, the columns of larger ones to the lanes of a register.
PackedShape packed_shape(Isa isa, std::uint32_t m);

// Tiles of small blocks

/// Whether row-merge takes B apart into tiles and adds up block rows of C in an accumulator, instead of ordering pairs:
/// below this side a pair costs more to order than to multiply.
constexpr bool sums_in_tiles(std::uint32_t m) {
  constexpr std::uint32_t kMaxSide = 3;
  return m <= kMaxSide;
}

/// Elements of a row of a tile: m rows of 8, which hold 8, 4 or 2 blocks side by side (m = 3: padded to 4 columns).
inline constexpr std::uint32_t kTileLanes = 8;
constexpr std::uint32_t tile_blocks(std::uint32_t m) {
  return m == 1 ? 8 : m == 2 ? 4 : 2;
}

/// Tiles that cover all block columns.
constexpr std::uint32_t num_tile_columns(std::uint32_t blocks_per_side, std::uint32_t m) {
  return (blocks_per_side - 1) / tile_blocks(m) + 1;
}

/// Bytes of a tile of B and of its sums.
constexpr std::uint64_t tile_value_bytes(std::uint32_t m) {
  return std::uint64_t{m} * kTileLanes * sizeof(std::uint16_t);
}

/// What a slot of an accumulator stands for.
struct TileShape {
  std::uint32_t blocks = 0;  ///< side by side
  std::uint32_t values = 0;  ///< elements of B
  std::uint32_t sums = 0;

  [[nodiscard]] constexpr std::uint32_t num_columns(std::uint32_t blocks_per_side) const {
    return (blocks_per_side - 1) / blocks + 1;
  }
  /// Slots of one accumulator: all columns, or a window of them. Few tiles of B need no large one.
  [[nodiscard]] constexpr std::uint32_t window(std::uint32_t blocks_per_side, std::uint64_t num_tiles) const {
    constexpr std::uint64_t kMaxSumBytes = 4u << 20;
    constexpr std::uint64_t kFewTiles = 256;
    constexpr std::uint64_t kTilesPerSlot = 4;  // rows that meet more are halved
    return static_cast<std::uint32_t>(
        std::min({std::uint64_t{num_columns(blocks_per_side)}, kMaxSumBytes / (sums * sizeof(std::uint32_t)),
                  std::max(kFewTiles, num_tiles / kTilesPerSlot)}));
  }
};
constexpr TileShape wide_tile(std::uint32_t m) {
  return {.blocks = tile_blocks(m), .values = m * kTileLanes, .sums = m * kTileLanes};
}

/// Segments that are added up at a time, and tiles that are sorted where they lie too far apart for a window.
inline constexpr std::uint32_t kMaxTileSegments = 1024;
inline constexpr std::uint32_t kMaxSortedTiles = 1u << 15;
/// Their ranks must fit a window.
constexpr std::uint32_t sorted_tiles(std::uint32_t window) {
  return std::min(window, kMaxSortedTiles);
}

// Operands and lists

enum class Side : std::uint8_t { a, b };

/// Both operands with the lists that link them: the peak while they are read and built, and what stays at most (while
/// they are linked).
std::uint64_t preparing_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape,
                              std::uint32_t a_span = kAnySpan);
std::uint64_t prepared_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape,
                             std::uint32_t a_span = kAnySpan);

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
OperandSizes operand_sizes(const MatrixHeader& header, Side side, const PackedShape& shape,
                           std::uint32_t span = kAnySpan);

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
std::uint64_t build_bytes(const MatrixHeader& header, Side side, const PackedShape& shape,
                          std::uint32_t span = kAnySpan);

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

}  // namespace spmm::cpu
