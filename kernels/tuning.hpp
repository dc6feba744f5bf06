// Compiled block sizes and device constants; pure C++, shared by kernels and planner.
#pragma once

#include <cstdint>

namespace spmm::kernels {

/// Bytes and number of the pinned buffers that carry raw records to the device and, later, result records back. A 4 MB
/// copy runs at the full rate of the link (80 us against about 5 us of launch cost) and the ring stays small: pinning
/// costs 0.3 s per GB, and while it lasts no other thread can launch.
inline constexpr std::uint64_t kRingSlotBytes = 4u << 20;
inline constexpr std::uint64_t kNumRingSlots = 8;

/// Result records of one panel, unless memory asks for less: large enough that listing its C blocks (20 launches and
/// one wait, 0.3 ms) is small compared with its 4 ms of traffic, small enough that the first one reaches the disk
/// early.
inline constexpr std::uint64_t kPanelBytes = 1u << 30;

/// Block sides for which the row kernels (Gustavson, ESC, split-K) are compiled. A block of any other side is padded
/// with zeros to the next of these when operands are gathered: m = 3 to 4, 5 to 7 to 8, and so on. Zeros add nothing
/// to a sum, and results are m x m again. Multiples of eight fill tensor-core fragments; 40 and 56 do not pay: an odd
/// number of eights leaves one strip of rows at a time, and a pair of them took as long as one of 48 and 64, or longer
/// (HISTORY.md).
inline constexpr std::uint32_t kBlockSides[] = {4, 8, 16, 24, 32, 48, 64};

/// The smallest of them that is not below m, 1 to 64.
constexpr std::uint32_t padded_side(std::uint32_t m) {
  for (const std::uint32_t side : kBlockSides) {
    if (m <= side) return side;
  }
  return 0;
}

/// A panel lists its C blocks by ESC (expand, sort and compress its pairs) while it has fewer pairs than this share of
/// its C blocks; above it, visiting every C block is cheaper than sorting.
inline constexpr double kEscPairsPerBlock = 0.25;

/// Short rows, with at most this many pairs, are sorted in shared memory, where each pair is compared with all others
/// of its row. Measured on an H200: 58 pairs per row (S5) 0.5 ms less than a sort of the panel; 420 per row 0.2 ms
/// more.
inline constexpr std::uint32_t kShortRowPairs = 256;

/// Matrices of up to kCountedBlocks blocks are sorted by counting: beyond that, blocks that go to their rows miss L2
/// (10^7 blocks in 2^21 rows: 0.95 ms, a radix sort of all key bits and what follows it 0.88). Up to kBitmapColumns
/// block columns a bitmap sorts a row; beyond that each block is compared with all others of its row, which must have
/// no more than kCountedRowBlocks, kCountedMeanBlocks on average. Others are sorted by CUB, by all bits of their keys.
inline constexpr std::uint64_t kCountedBlocks = 1u << 22;
inline constexpr std::uint32_t kBitmapColumns = 1u << 14;
inline constexpr std::uint32_t kCountedRowBlocks = 256;
inline constexpr std::uint32_t kCountedMeanBlocks = 32;

/// Matrices A with at least this many blocks look up B's rows in a table of all block rows; smaller ones search (search
/// and table: 10^5 blocks 8 and 11 us, 10^6 40 and 20, 10^7 689 and 90).
inline constexpr std::uint64_t kRowTableBlocks = 1u << 19;

/// Block side for which short rows are multiplied while they are listed: elements of four records are whole sectors.
inline constexpr std::uint32_t kShortRowSide = 8;

/// Split-K: a listed C block with more pairs than this is shared out among CTAs. One warp would take about 0.5 us per
/// pair (estimated from the latency of two dependent loads), so 4,096 pairs last about as long as all the short lists
/// of a panel. Sums of such C blocks stay small: 8 * m * m / 4096 bytes per listed pair.
inline constexpr std::uint32_t kSplitKPairs = 4096;

/// Place of the sums of the C block whose list begins with that pair: lists are so long that no two share one.
constexpr std::uint64_t split_k_slot(std::uint64_t first_pair) {
  return first_pair / kSplitKPairs;
}
/// Places of all lists with num_pairs pairs together.
constexpr std::uint64_t num_split_k_slots(std::uint64_t num_pairs) {
  return num_pairs / kSplitKPairs;
}

/// Block sides that small-blocks takes: each lane computes a whole block product in registers.
inline constexpr std::uint32_t kMaxSmallSide = 4;

/// Warps of a CTA of small-blocks, and its shared memory for sums: two CTAs on a multiprocessor of 228 KB; the small
/// one if a device gives a CTA no more than 48 KB.
inline constexpr std::uint32_t kSmallWarps = 16;
inline constexpr std::uint32_t kSmallWideBytes = 96u << 10;
inline constexpr std::uint32_t kSmallestBytes = 37u << 10;

/// What a CTA of small-blocks accumulates, in C blocks. By pairs of a row: up to hash_slots a warp takes the whole row
/// (hash table), up to rank_pairs a CTA takes rank_columns of it (sums of C blocks that exist), else dense_columns.
struct SmallShape {
  std::uint32_t hash_slots = 0;     // of a table, a multiple of 32
  std::uint32_t rows_per_warp = 0;  // hash tables of a warp
  std::uint32_t rank_columns = 0;   // a multiple of 32
  std::uint32_t rank_chunks = 0;    // of a row, at most
  std::uint32_t rank_slots = 0;     // sums at a time; a multiple of 32
  std::uint32_t rank_pairs = 0;     // 0 = no row is ranked: dense sums need no more CTAs
  std::uint32_t dense_columns = 0;  // a multiple of 32
  std::uint32_t dense_chunks = 0;
};

/// Bits that the accumulator of a C block takes: sums, a saturation bit each.
constexpr std::uint64_t small_sum_bits(std::uint32_t m) {
  return std::uint64_t{33} * m * m;
}

/// 32-bit words of a hash table of small-blocks: column, sums, saturation bits, and, beyond m = 1, the order of slots.
constexpr std::uint32_t small_table_words(std::uint32_t slots, std::uint32_t m) {
  return slots * (1 + m * m + (m > 1 ? 1 : 0)) + (slots / 32 * m * m + 3) / 4 * 4;
}

/// Chunks of at most `most` columns, all of the same multiple of 32 but the last.
constexpr std::uint32_t small_chunk_columns(std::uint64_t num_columns, std::uint64_t most) {
  const std::uint64_t chunks = (num_columns - 1) / most + 1;
  return static_cast<std::uint32_t>(((num_columns - 1) / chunks / 32 + 1) * 32);
}

/// Values: num_columns >= 1, 1 <= m <= kMaxSmallSide; no row that is hashed has more than max_row_pairs pairs.
constexpr SmallShape small_shape(std::uint32_t m, std::uint32_t num_columns, std::uint32_t region_bytes,
                                 std::uint64_t max_row_pairs = ~std::uint64_t{0}) {
  constexpr std::uint32_t kPaddingBytes = 256;   // words are cleared four at a time
  constexpr std::uint32_t kMaxRowsPerWarp = 32;  // their record counts are summed up by one warp
  const std::uint64_t bits = std::uint64_t{region_bytes - kPaddingBytes} * 8;
  const std::uint32_t warp_words = region_bytes / kSmallWarps / 4;
  SmallShape shape;
  while (shape.hash_slots < max_row_pairs && small_table_words(shape.hash_slots + 32, m) <= warp_words) {
    shape.hash_slots += 32;
  }
  if (shape.hash_slots == 0) shape.hash_slots = 32;
  shape.rows_per_warp = warp_words / small_table_words(shape.hash_slots, m);
  if (shape.rows_per_warp > kMaxRowsPerWarp) shape.rows_per_warp = kMaxRowsPerWarp;
  shape.dense_columns = small_chunk_columns(num_columns, bits / (small_sum_bits(m) + 1) / 32 * 32);
  shape.dense_chunks = (num_columns - 1) / shape.dense_columns + 1;
  // A bit per column and 16 bits for 32 of them, in half of the region at most.
  shape.rank_columns = small_chunk_columns(num_columns, bits / 3 / 32 * 32);
  shape.rank_chunks = (num_columns - 1) / shape.rank_columns + 1;
  shape.rank_slots = static_cast<std::uint32_t>((bits - shape.rank_columns / 2 * 3) / small_sum_bits(m) / 32 * 32);
  if (shape.rank_chunks < shape.dense_chunks) {
    // Ranked rows walk their pairs once more for every rank_slots C blocks, dense ones once for every chunk, which also
    // clear and search all columns. Ranks have 16 bits.
    const std::uint64_t pairs = std::uint64_t{shape.rank_slots} * (shape.dense_chunks / 2);
    shape.rank_pairs = static_cast<std::uint32_t>(pairs < 65'535 ? pairs : 65'535);
  }
  return shape;
}

/// Rows of small-blocks that warps sort instead of hashing: pairs of the longest one, m = 1. A key of 32 bits has the
/// column and the number of the pair in its row.
inline constexpr std::uint32_t kSortedRowPairs = 2048;

/// Whether a key has bits for the column and the number of each pair of num_rows rows that are sorted together.
constexpr bool has_sort_keys(std::uint64_t num_rows, std::uint64_t max_row_pairs, std::uint64_t num_columns) {
  if (max_row_pairs > kSortedRowPairs || num_rows * max_row_pairs > kSortedRowPairs) return false;
  std::uint64_t padded = 32;
  while (padded < num_rows * max_row_pairs) padded *= 2;
  return num_rows * num_columns * padded < std::uint64_t{1} << 32;
}

/// Whether all rows of a product are sorted.
constexpr bool sorts_rows(std::uint32_t m, std::uint64_t max_row_pairs, std::uint64_t num_columns) {
  return m == 1 && has_sort_keys(1, max_row_pairs, num_columns);
}

/// Rows that a warp sorts together if none has more pairs: 8 and 1,024 pairs at most. Values: sorts_rows().
constexpr std::uint32_t sorted_rows_at_once(std::uint64_t max_row_pairs, std::uint64_t num_columns) {
  std::uint32_t rows = 8;
  while (rows > 1 && (rows * max_row_pairs > 1024 || !has_sort_keys(rows, max_row_pairs, num_columns))) rows /= 2;
  return rows;
}

/// Tasks of small-blocks in a panel, at most. Values: num_pairs > 0.
constexpr std::uint64_t max_small_tasks(const SmallShape& shape, std::uint64_t num_rows, std::uint64_t num_pairs) {
  const std::uint64_t not_short = num_pairs / (shape.hash_slots + std::uint64_t{1});
  const std::uint64_t long_rows = not_short < num_rows ? not_short : num_rows;
  const std::uint64_t not_ranked = num_pairs / (shape.rank_pairs + std::uint64_t{1});
  const std::uint64_t dense_rows = not_ranked < long_rows ? not_ranked : long_rows;
  const std::uint64_t ranked = shape.rank_pairs == 0 ? 0 : long_rows * shape.rank_chunks;
  return num_rows / (shape.rows_per_warp * kSmallWarps) + 1 + long_rows + ranked + dense_rows * shape.dense_chunks;
}

/// If the longest row of a panel has more pairs than this many average ones, small-blocks multiplies rows in any order,
/// and copies their records to their place afterwards: in order, all CTAs would wait for each long row.
inline constexpr std::uint64_t kSmallEvenRows = 4;

/// Block sides that row-rank takes, and block columns: a bit for each in shared memory.
inline constexpr std::uint32_t kMaxRankedSide = 16;
inline constexpr std::uint32_t kMaxRankedColumns = 1u << 20;

/// Pairs of a row whose columns one CTA of row-rank finds, about; longer rows are cut by columns.
inline constexpr std::uint64_t kRowPiecePairs = 1u << 14;

/// Pairs of a CTA of row-rank that multiplies, about: if C blocks have many, it takes fewer of them.
inline constexpr std::uint64_t kRankWindowPairs = 8192;
inline constexpr std::uint32_t kMinRankSlots = 16;

/// CTAs of row-rank that multiply. Rows with at most kRankShortRowPairs, on average,
/// leave most of a large one idle.
struct RankCta {
  std::uint32_t warps = 0;
  std::uint32_t region_bytes = 0;  // of shared memory: sums, columns, buckets
};
inline constexpr RankCta kRankWideCta = {.warps = 16, .region_bytes = 96u << 10};  // two per multiprocessor of 228 KB
inline constexpr RankCta kRankShortCta = {.warps = 8, .region_bytes = 47u << 10};  // four
inline constexpr RankCta kRankTinyCta = {.warps = 4, .region_bytes = 23u << 10};   // eight
inline constexpr RankCta kRankSmallestCta = {.warps = 8, .region_bytes = 38u << 10};  // if a CTA has 48 KB at most
inline constexpr std::uint64_t kRankShortRowPairs = 1024;
inline constexpr std::uint32_t kRankTinySide = 4;  // rows of blocks up to this side take the tiny one, others the short

/// Where sums of fewer pairs than this may leave 32 bits, row-rank checks them as it adds them; otherwise it counts the
/// pairs of C blocks and checks only in windows that have one with too many.
inline constexpr std::uint32_t kMinCountedPairs = 16;

/// Buckets of columns of a window: at least 1.5 for each C block, a power of two.
constexpr std::uint32_t rank_buckets(std::uint32_t slots) {
  std::uint32_t buckets = 1;
  while (buckets < slots + slots / 2) buckets *= 2;
  return buckets;
}

/// Bytes of shared memory for `slots` C blocks of row-rank: sums and a count of pairs for each and for a C block that
/// is none, columns, bucket borders.
constexpr std::uint32_t rank_region_bytes(std::uint32_t m, std::uint32_t slots) {
  return ((slots + 1) * (m * m + 1) + 3) / 4 * 16 + slots * 4 + rank_buckets(slots) * 4;
}

/// C blocks whose sums fit a CTA. Values: 1 <= m <= kMaxRankedSide.
constexpr std::uint32_t rank_slots(std::uint32_t m, RankCta cta) {
  constexpr std::uint32_t kMost = 2048;
  std::uint32_t slots = kMinRankSlots;
  while (slots < kMost && rank_region_bytes(m, slots + 1) <= cta.region_bytes) ++slots;
  return slots;
}

/// Records of one panel of row-rank, unless memory asks for less. Far fewer come of it if C blocks have many pairs:
/// panels are cut by what pairs allow.
inline constexpr std::uint64_t kRankPanelBytes = std::uint64_t{4} << 30;

/// Split offsets of a panel that row-rank keeps: as many as C blocks, or a quarter if these may be zero and are
/// written twice. Windows for which there is no room search for themselves.
constexpr std::uint64_t max_rank_splits(std::uint64_t max_c_blocks, bool can_be_zero) {
  return can_be_zero ? max_c_blocks / 4 : max_c_blocks;
}

/// Pieces of rows and windows of a panel, at most.
constexpr std::uint64_t max_row_pieces(std::uint64_t num_rows, std::uint64_t num_pairs) {
  return num_rows + num_pairs / kRowPiecePairs;
}
constexpr std::uint64_t max_rank_windows(std::uint64_t max_pieces, std::uint64_t max_c_blocks) {
  return max_pieces + max_c_blocks / kMinRankSlots;
}

/// Shared memory that a CTA of row-spread takes for sums: two per multiprocessor of 228 KB.
inline constexpr std::uint32_t kSpreadSharedBytes = 100u << 10;
/// C blocks of one CTA at most: a bit and a position for each are in shared memory, too.
inline constexpr std::uint32_t kMaxChunkBlocks = 2048;

/// The host-driven kernel launches once per result block: about 5 us each. More launches than this need --force.
inline constexpr std::uint64_t kMaxHostDrivenLaunches = 200'000;

}  // namespace spmm::kernels
