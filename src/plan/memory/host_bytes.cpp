#include "plan/memory/host_bytes.hpp"

#include "plan/panels/tiles.hpp"

namespace spmm::plan {
namespace {

std::uint64_t packed_elements(Side side, const PackedShape& shape) {
  return side == Side::a ? shape.a_elements() : shape.b_elements();
}

std::uint64_t stored_rows(const MatrixHeader& header) {
  return std::min(header.num_blocks, header.blocks_per_side());
}

/// Where each block of A finds its block row of B, and the pairs of each block row of A.
std::uint64_t link_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const std::uint64_t nb = a.blocks_per_side();
  const bool table = has_row_table(nb, std::uint64_t{a.num_blocks} + b.num_blocks);
  return (table ? nb * sizeof(std::uint32_t) : 0) + stored_rows(a) * sizeof(std::uint64_t);
}

/// Lists of one worker, and twice the sums of a C block that has more pairs than a list holds.
std::uint64_t row_merger_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const std::uint64_t pairs = listed_pairs(b.num_blocks);
  const std::uint64_t nb = a.blocks_per_side();
  const std::uint64_t words = mark_words(nb);
  const std::uint64_t ordering =
      counts_columns(a.blocks_per_side(), b.num_blocks)  // counters, a bit per column, a bit per word
          ? nb * sizeof(std::uint32_t) + (words + mark_words(words)) * sizeof(std::uint64_t)
          : 2 * kSortItemBytes * pairs;
  constexpr std::uint64_t kPadding = 4096;  // entries past the end of lists
  return pairs * kMergeEntryBytes + ordering + kPadding + 2 * output_record_bytes(a.m);
}

/// Where the tiles of each row of B begin.
std::uint64_t tile_row_bytes(const MatrixHeader& b) {
  return (stored_rows(b) + 1) * sizeof(std::uint32_t);
}

/// B in tiles: at most one a block, and no more than there are tile columns in its rows.
std::uint64_t tile_operand_bytes(const MatrixHeader& b) {
  if (b.num_blocks == 0) return 0;
  const std::uint64_t places = std::uint64_t{stored_rows(b)} * num_tile_columns(b.blocks_per_side(), b.m);
  return std::min<std::uint64_t>(b.num_blocks, places) * (tile_value_bytes(b.m) + sizeof(std::uint32_t));
}

/// Accumulator, marks and lists of one worker.
std::uint64_t tile_merger_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  if (a.blocks_per_side() == 0) return 0;
  const TileShape shape = wide_tile(a.m);
  const std::uint64_t window = shape.window(a.blocks_per_side(), b.num_blocks);
  const std::uint64_t words = mark_words(window);
  const bool sorts = window != shape.num_columns(a.blocks_per_side());
  constexpr std::uint64_t kPadding = 4096;  // ends of lists, records of one tile
  return window * (shape.sums * sizeof(std::uint32_t) + kTileSlotBytes) +
         (words + mark_words(words)) * sizeof(std::uint64_t) + kMaxTileSegments * kTileSegmentBytes +
         (sorts ? sorted_tiles(static_cast<std::uint32_t>(window)) * (2 * kSortItemBytes + sizeof(std::uint32_t)) : 0) +
         kPadding;
}

HostBytes tile_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape) {
  const std::uint64_t prepared = prepared_bytes(a, b, shape);
  const std::uint64_t tiles = tile_operand_bytes(b);
  const std::uint64_t taken_apart = b.num_blocks * (shape.b_elements() * sizeof(std::uint16_t) + sizeof(std::uint32_t));
  const std::uint64_t built = operand_bytes(a, Side::a, shape) + sorted_build_bytes(b, shape);
  return {.preparing = std::max(preparing_bytes(a, b, shape), prepared + tiles),
          .preparing_sorted = a.m == 1 ? std::max({sorted_build_bytes(a, shape), built, prepared + tiles}) : 0,
          .resident = prepared + tiles - taken_apart,
          .per_thread = tile_merger_bytes(a, b)};
}

}  // namespace

std::uint64_t HostBytes::total(unsigned num_threads, std::uint64_t num_buffers, std::uint64_t buffer_bytes) const {
  return std::max(preparing, resident + num_buffers * buffer_bytes + num_threads * per_thread);
}

std::uint64_t operand_bytes(const MatrixHeader& header, Side side, const PackedShape& shape) {
  return header.num_blocks * (packed_elements(side, shape) * sizeof(std::uint16_t) + sizeof(std::uint32_t)) +
         (2 * stored_rows(header) + 1) * sizeof(std::uint32_t);
}

std::uint64_t build_bytes(const MatrixHeader& header, Side side, const PackedShape& shape) {
  if (builds_from_runs(header)) {  // keys; what they become; two copies of those that are sorted: all, if rows crowd
    return header.num_blocks * 3 * kShortKeyBytes + run_table_bytes(header) + operand_bytes(header, side, shape);
  }
  const std::uint64_t entries = header.num_blocks * (short_key_bits(header).fit() ? kShortKeyBytes : kSortItemBytes);
  return entries + std::max(entries, operand_bytes(header, side, shape));  // sorting with scratch, then gathering
}

std::uint64_t sorted_build_bytes(const MatrixHeader& header, const PackedShape& shape) {
  constexpr std::uint64_t kListedRowBytes = 2 * 2 * sizeof(std::uint32_t);  // of lists that grow
  return operand_bytes(header, Side::b, shape) + stored_rows(header) * kListedRowBytes;
}

std::uint64_t preparing_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape) {
  const std::uint64_t raw_a = builds_from_runs(a) ? 0 : a.num_blocks * input_record_bytes(a.m);
  const std::uint64_t raw_b = builds_from_runs(b) ? 0 : b.num_blocks * input_record_bytes(b.m);
  // A's raw records go when A is built, then B's are read.
  return std::max(raw_a + build_bytes(a, Side::a, shape),
                  operand_bytes(a, Side::a, shape) + raw_b + build_bytes(b, Side::b, shape));
}

std::uint64_t prepared_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape) {
  const std::uint64_t tiles = sums_in_tiles(a.m) ? tile_row_bytes(b) : 0;
  return operand_bytes(a, Side::a, shape) + operand_bytes(b, Side::b, shape) + link_bytes(a, b) + tiles;
}

HostBytes row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa) {
  const PackedShape shape = packed_shape(isa, a.m);
  if (sums_in_tiles(a.m)) return tile_merge_bytes(a, b, shape);
  // Bounds of rows, which tell their arithmetic, and what wide arithmetic wants.
  const std::uint64_t bounds = (stored_rows(a) + stored_rows(b)) * sizeof(std::uint32_t);
  const std::uint64_t row_sums = a.num_blocks * sizeof(std::uint32_t) * shape.rows;
  return {.preparing = preparing_bytes(a, b, shape),
          .resident = prepared_bytes(a, b, shape) + bounds + row_sums,
          .per_thread = row_merger_bytes(a, b)};
}

HostBytes reference_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa) {
  constexpr std::uint64_t kNodeBytes = 128;  // a node of the map, its vector, and the heap's own words
  const std::uint64_t block = input_record_bytes(a.m) + kStoredBlockBytes;
  const std::uint64_t stored = (std::uint64_t{a.num_blocks} + b.num_blocks) * block;
  const std::uint64_t sums = std::uint64_t{a.m} * a.m * sizeof(std::uint64_t);
  return {.resident = stored + stored_rows(b) * (sums + kNodeBytes)};  // the widest row of C
}

}  // namespace spmm::plan
