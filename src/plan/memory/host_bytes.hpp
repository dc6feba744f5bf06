// Host memory of the CPU kernels: upper bounds of what they allocate, for given operands, threads and buffers. The
// constants that decide on an allocation stand here, so that the kernels and these bounds cannot differ.
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
  std::uint64_t preparing = 0;         ///< peak while operands are read, sorted and packed
  std::uint64_t preparing_sorted = 0;  ///< the same of operands that were sorted before, if that is less
  std::uint64_t resident = 0;          ///< operands and lists while it multiplies
  std::uint64_t per_thread = 0;        ///< lists of one worker

  [[nodiscard]] std::uint64_t total(unsigned num_threads, std::uint64_t num_buffers, std::uint64_t buffer_bytes) const;
};

HostBytes row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa);
HostBytes reference_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa);

/// Bytes of one operand in memory, and of the peak while it is built, its raw records where they are kept not counted.
std::uint64_t operand_bytes(const MatrixHeader& header, Side side, const PackedShape& shape);
std::uint64_t build_bytes(const MatrixHeader& header, Side side, const PackedShape& shape);

/// Side 1, records that come in order: an operand is filled as they are read, in chunks, and lists of where its rows
/// begin become one.
inline constexpr std::uint64_t kSortedChunkRecords = 1u << 11;
std::uint64_t sorted_build_bytes(const MatrixHeader& header, const PackedShape& shape);

/// Bytes of both operands with the lists that link them: the peak while they are read and built, and what stays at most
/// (while they are linked).
std::uint64_t preparing_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape);
std::uint64_t prepared_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape);

/// Whether block rows of B are found through a table of all of them.
constexpr bool has_row_table(std::uint64_t blocks_per_side, std::uint64_t num_blocks) {
  constexpr std::uint64_t kFactor = 4;  // the table costs at most this times 4 bytes a block
  constexpr std::uint64_t kMin = 1u << 13;
  return blocks_per_side <= std::max(kMin, kFactor * num_blocks);
}

/// Sorting the records of an operand: records are parted by the upper bits of their block row, and the rest of their
/// position is sorted together with the number of the record, or with its only element, in 8 bytes, where they fit.
inline constexpr unsigned kRowBucketBits = 11;  // as many open cache lines still fit the second-level cache
/// Side 1, where buckets stay so small that they are brought into order within that cache: their open lines fit the
/// first one.
inline constexpr unsigned kFewRowBucketBits = 9;
constexpr bool has_few_row_buckets(std::uint32_t m, unsigned index_bits, std::uint64_t num_blocks) {
  constexpr unsigned kMaxIndexBits = 24;
  constexpr std::uint64_t kMaxBlocks = 1u << 26;
  return m == 1 && index_bits <= kMaxIndexBits && num_blocks <= kMaxBlocks;
}
struct ShortKeyBits {
  unsigned index = 0;    ///< of a block row or block column
  unsigned bucket = 0;   ///< upper bits of the block row, which are not stored
  unsigned payload = 0;  ///< number of the record; side 1: its element

  [[nodiscard]] constexpr unsigned key() const { return 2 * index - bucket; }
  [[nodiscard]] constexpr bool fit() const { return key() + payload <= 64; }
};
constexpr ShortKeyBits short_key_bits(const MatrixHeader& header) {
  constexpr unsigned kElementBits = 16;
  const auto width = [](std::uint64_t count) { return static_cast<unsigned>(std::bit_width(count - 1)); };
  const unsigned index = header.blocks_per_side() == 0 ? 0 : width(header.blocks_per_side());
  return {.index = index,
          .bucket = std::min(
              index, has_few_row_buckets(header.m, index, header.num_blocks) ? kFewRowBucketBits : kRowBucketBits),
          .payload = header.m == 1            ? kElementBits
                     : header.num_blocks == 0 ? 0
                                              : width(header.num_blocks)};
}

constexpr std::uint32_t num_row_buckets(const MatrixHeader& header) {
  return std::uint32_t{1} << short_key_bits(header).bucket;
}

/// Side 1: records are parted chunk by chunk while they are read, with their only element, and not kept as they are; a
/// table says where the runs of each chunk begin.
constexpr bool builds_from_runs(const MatrixHeader& header) {
  return header.m == 1 && short_key_bits(header).fit();
}
inline constexpr std::uint64_t kRunChunkRecords = 1u << 16;  // with their keys about 1 MB
constexpr std::uint64_t num_run_chunks(const MatrixHeader& header) {
  return (header.num_blocks + kRunChunkRecords - 1) / kRunChunkRecords;
}
constexpr std::uint64_t run_table_bytes(const MatrixHeader& header) {
  return num_run_chunks(header) * (num_row_buckets(header) + std::uint64_t{1}) * sizeof(std::uint32_t);
}

/// Words of a bit map.
constexpr std::uint64_t mark_words(std::uint64_t num_bits) {
  return (num_bits + 63) / 64;
}

/// row-merge: pairs of one list, 512 kB, half of a usual second-level cache; and whether each block column has a
/// counter of its own (else pairs are sorted).
inline constexpr std::uint32_t kMaxListedPairs = 1u << 16;
/// Pairs of one list if B has so many blocks: no row of C has more pairs. Small ranges need no long lists.
constexpr std::uint32_t listed_pairs(std::uint64_t b_blocks) {
  constexpr std::uint64_t kLeast = 1024;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(b_blocks, kLeast, kMaxListedPairs));
}
constexpr bool counts_columns(std::uint32_t blocks_per_side, std::uint64_t b_blocks) {
  constexpr std::uint64_t kFewCounters = 1u << 16;
  constexpr std::uint64_t kMostCounters = 1u << 20;
  constexpr std::uint64_t kOfBlock = 16;  // few blocks of B, as of a range out of core, need no large table
  return blocks_per_side <= std::clamp(kOfBlock * b_blocks, kFewCounters, kMostCounters);
}

/// Sizes of the entries of those lists; the kernels assert them.
inline constexpr std::uint64_t kSortItemBytes = 16;     // sort key and record number
inline constexpr std::uint64_t kShortKeyBytes = 8;      // both in one word
inline constexpr std::uint64_t kMergeEntryBytes = 32;   // row-merge, per pair: segment, pair, C block, cursor
inline constexpr std::uint64_t kTileSegmentBytes = 32;  // row-merge of small blocks, per segment
inline constexpr std::uint64_t kTileSlotBytes = 5;      // and per slot in addition to its sums: fresh, touched
inline constexpr std::uint64_t kStoredBlockBytes = 12;  // reference: index and record number

}  // namespace spmm::plan
