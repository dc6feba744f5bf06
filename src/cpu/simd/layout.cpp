// Bytes of operands, lists and whole products on the CPU.
#include "cpu/simd/layout.hpp"

#include "plan/registry.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr std::uint64_t kPadding = 4096;  // entries past the end of lists, records of one tile

std::uint64_t stored_rows(const MatrixHeader& header, std::uint32_t span = kAnySpan) {
  return std::min({header.num_blocks, header.blocks_per_side(), span});
}

/// Where each block of A finds its block row of B, and the pairs of each block row of A.
std::uint64_t link_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t a_span) {
  const std::uint64_t nb = a.blocks_per_side();
  const bool table = has_row_table(nb, std::uint64_t{a.num_blocks} + b.num_blocks);
  return (table ? nb * sizeof(std::uint32_t) : 0) + stored_rows(a, a_span) * sizeof(std::uint64_t);
}

/// B in tiles: at most one a block, and no more than there are tile columns in its rows.
std::uint64_t tile_operand_bytes(const MatrixHeader& b) {
  if (b.num_blocks == 0) return sizeof(std::uint32_t);
  const std::uint64_t places = std::uint64_t{stored_rows(b)} * num_tile_columns(b.blocks_per_side(), b.m);
  const std::uint64_t row_bytes = (stored_rows(b) + 1) * sizeof(std::uint32_t);
  return row_bytes + std::min<std::uint64_t>(b.num_blocks, places) * (tile_value_bytes(b.m) + sizeof(std::uint32_t));
}

plan::HostBytes tile_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape,
                                 std::uint32_t a_span) {
  const std::uint64_t prepared = prepared_bytes(a, b, shape, a_span);
  const std::uint64_t tiles = tile_operand_bytes(b);
  const std::uint64_t taken_apart = b.num_blocks * (shape.b_elements() * sizeof(std::uint16_t) + sizeof(std::uint32_t));
  const TileMergeSizes sizes =
      a.blocks_per_side() == 0 ? TileMergeSizes{} : tile_merge_sizes(a.blocks_per_side(), a.m, b.num_blocks);
  return {.preparing = std::max(preparing_bytes(a, b, shape, a_span), prepared + tiles),
          .resident = prepared + tiles - taken_apart,
          .per_thread = sizes.bytes()};
}

}  // namespace

OperandSizes operand_sizes(const MatrixHeader& header, Side side, const PackedShape& shape, std::uint32_t span) {
  return {.rows = stored_rows(header, span),
          .blocks = header.num_blocks,
          .block_elements = side == Side::a ? shape.a_elements() : shape.b_elements()};
}

std::uint64_t build_bytes(const MatrixHeader& header, Side side, const PackedShape& shape, std::uint32_t span) {
  return 2 * key_bits(header).word_bytes() * header.num_blocks + operand_sizes(header, side, shape, span).bytes();
}

std::uint64_t preparing_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape,
                              std::uint32_t a_span) {
  const auto raw_bytes = [](const MatrixHeader& x) { return x.m == 1 ? 0 : x.num_blocks * input_record_bytes(x.m); };
  // A's raw records go when A is built, then B's are read.
  return std::max(raw_bytes(a) + build_bytes(a, Side::a, shape, a_span),
                  operand_sizes(a, Side::a, shape, a_span).bytes() + raw_bytes(b) + build_bytes(b, Side::b, shape));
}

std::uint64_t prepared_bytes(const MatrixHeader& a, const MatrixHeader& b, const PackedShape& shape,
                             std::uint32_t a_span) {
  return operand_sizes(a, Side::a, shape, a_span).bytes() + operand_sizes(b, Side::b, shape).bytes() +
         link_bytes(a, b, a_span);
}

std::uint64_t MergeSizes::bytes() const {
  const std::uint64_t ordering =
      columns != 0 ? columns * sizeof(std::uint32_t) + MarkSizes(columns).bytes() : pairs * kSortedBytes;
  return pairs * kEntryBytes + ordering + sums * sizeof(std::uint32_t) + kPadding;
}

MergeSizes merge_sizes(std::uint32_t blocks_per_side, std::uint64_t b_blocks) {
  // Of small ranges out of core no row of C has many pairs, and few blocks of B need no large table.
  constexpr std::uint64_t kLeastPairs = 1024;
  constexpr std::uint64_t kFewCounters = 1u << 16;
  constexpr std::uint64_t kMostCounters = 1u << 20;
  constexpr std::uint64_t kCountersOfBlock = 16;
  constexpr std::uint64_t kSumsOfPair = 2;
  const bool counts = blocks_per_side <= std::clamp(kCountersOfBlock * b_blocks, kFewCounters, kMostCounters);
  const std::uint64_t pairs = std::clamp<std::uint64_t>(b_blocks, kLeastPairs, MergeSizes::kMaxPairs);
  return {.pairs = static_cast<std::uint32_t>(pairs),
          .columns = counts ? blocks_per_side : 0,
          .sums = std::min(MergeSizes::kMostSums, kSumsOfPair * pairs)};
}

std::uint64_t TileMergeSizes::bytes() const {
  return window * (slot_sums * sizeof(std::uint32_t) + kSlotBytes) + MarkSizes(window).bytes() +
         kMaxTileSegments * kSegmentBytes + sorted * kSortedBytes + kPadding;
}

TileMergeSizes tile_merge_sizes(std::uint32_t blocks_per_side, std::uint32_t m, std::uint64_t b_blocks) {
  const TileShape shape = wide_tile(m);
  const std::uint32_t window = shape.window(blocks_per_side, b_blocks);
  return {.window = window,
          .slot_sums = shape.sums,
          .sorted = window == shape.num_columns(blocks_per_side) ? 0 : sorted_tiles(window)};
}

PackedShape packed_shape(Isa isa, std::uint32_t m) {
  if (isa == Isa::portable || sums_in_tiles(m))
    return {.m = m, .rows = m, .inner = m, .cols = m, .packing = Packing::rows};
  for (const std::uint32_t side : {4u, 8u}) {
    if (m <= side) return {.m = m, .rows = side, .inner = side, .cols = side, .packing = Packing::row_pairs};
  }
  return {.m = m,
          .rows = m,
          .inner = round_up(m, 2),
          .cols = round_up(m, isa == Isa::avx512_vnni ? 16 : 8),
          .packing = Packing::row_pairs};
}

plan::HostBytes row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa, std::uint32_t a_span) {
  const PackedShape shape = packed_shape(isa, a.m);
  if (sums_in_tiles(a.m)) return tile_merge_bytes(a, b, shape, a_span);
  // Bounds of rows, which tell their arithmetic, and what wide arithmetic wants.
  const std::uint64_t bounds = (stored_rows(a, a_span) + stored_rows(b)) * sizeof(std::uint32_t);
  const std::uint64_t row_sums = a.num_blocks * sizeof(std::uint32_t) * shape.rows;
  // And twice the sums of a C block that has more pairs than a list holds.
  return {.preparing = preparing_bytes(a, b, shape, a_span),
          .resident = prepared_bytes(a, b, shape, a_span) + bounds + row_sums,
          .per_thread = merge_sizes(a.blocks_per_side(), b.num_blocks).bytes() + 2 * output_record_bytes(a.m)};
}

plan::HostBytes reference_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa, std::uint32_t) {
  constexpr std::uint64_t kNodeBytes = 128;  // a node of the map, its vector, and the heap's own words
  const std::uint64_t block = input_record_bytes(a.m) + kStoredBlockBytes;
  const std::uint64_t stored = (std::uint64_t{a.num_blocks} + b.num_blocks) * block;
  const std::uint64_t sums = std::uint64_t{a.m} * a.m * sizeof(std::uint64_t);
  return {.resident = stored + stored_rows(b) * (sums + kNodeBytes)};  // the widest row of C
}

}  // namespace spmm::cpu

namespace spmm::plan {

HostBytes row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa, std::uint32_t a_span) {
  return cpu::row_merge_bytes(a, b, isa, a_span);
}

HostBytes reference_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa, std::uint32_t a_span) {
  return cpu::reference_bytes(a, b, isa, a_span);
}

}  // namespace spmm::plan
