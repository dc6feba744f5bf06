// What the allocations of src/cuda add up to.
#include "plan/memory/device_bytes.hpp"

#include <algorithm>

#include "kernels/tuning.hpp"

namespace spmm::plan {

OperandBytes operand_device_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t side) {
  const std::uint64_t parsed_a = std::uint64_t{2} * a.m * a.m * a.num_blocks;
  const std::uint64_t parsed_b = std::uint64_t{2} * b.m * b.m * b.num_blocks;
  const std::uint64_t values_a = std::uint64_t{2} * side * side * a.num_blocks;
  const std::uint64_t values_b = std::uint64_t{2} * side * side * b.num_blocks;
  const std::uint64_t rows_a = std::min(a.num_blocks, a.blocks_per_side());
  const std::uint64_t rows_b = std::min(b.num_blocks, b.blocks_per_side());
  constexpr std::uint64_t kRow = 4 + 4;         // row number, offset
  constexpr std::uint64_t kInner = 4;           // position within the row
  constexpr std::uint64_t kCounts = 4 + 8 + 8;  // per block of A: block row of B, pairs before it, pairs before its row
  constexpr std::uint64_t kKey = 8;
  constexpr std::uint64_t kSort = 8 + 4 + 4;  // the other key buffer, record numbers twice
  constexpr std::uint64_t kWork = 64u << 20;  // upload ring on the device, then library work space; flags and counts
  const std::uint64_t index = rows_a * kRow + a.num_blocks * (kInner + kCounts)  //
                              + 2 * (rows_b * kRow + b.num_blocks * kInner);     // B in both orders
  const std::uint64_t keys = (std::uint64_t{a.num_blocks} + b.num_blocks) * kKey;
  const std::uint64_t sort = std::max(a.num_blocks, b.num_blocks) * kSort;
  const std::uint64_t gathers = std::max(parsed_a + parsed_b + values_a, values_a + parsed_b + values_b);  // A, then B
  return {.resident = values_a + values_b + index + kWork, .build_peak = gathers + index + keys + sort + kWork};
}

std::uint64_t upload_section_chunks(const MatrixHeader& a) {
  // Each launch comes with two events and a start, 12 us or so. S6 parses 16 MB at a time in 2.20 ms of kernels, 256 MB
  // in 1.60.
  constexpr std::uint64_t kFewest = 4, kMost = 32;
  const std::uint64_t room = kFewest * 4 * kernels::kRingSlotBytes + std::uint64_t{2} * a.m * a.m * a.num_blocks;
  return std::clamp(room / (4 * kernels::kRingSlotBytes), kFewest, kMost);
}

bool has_room_to_count(std::uint64_t a_blocks, std::uint64_t b_blocks, std::uint32_t m, std::uint32_t nb,
                       bool are_sorted) {
  const std::uint64_t counters = std::uint64_t{24} * nb  // of both: blocks of each row, and before it
                                 + 4 * a_blocks +
                                 24 * (nb + std::uint64_t{3});  // rows of B, pairs of rows, and before them
  const std::uint64_t entries = (are_sorted ? 8 : 16) * (a_blocks + b_blocks);  // and sorted keys
  const std::uint64_t stays =
      8 * (a_blocks + b_blocks) + 8 * (std::min<std::uint64_t>(a_blocks, nb) + std::min<std::uint64_t>(b_blocks, nb));
  const std::uint64_t index = 8 * std::min<std::uint64_t>(a_blocks, nb) + 24 * a_blocks +
                              2 * (8 * std::min<std::uint64_t>(b_blocks, nb) + 4 * b_blocks);
  const std::uint64_t sort = 16 * std::max(a_blocks, b_blocks);
  return counters + entries + stays <= index + sort + std::uint64_t{2} * m * m * a_blocks;
}

namespace {

/// Raw records of both matrices on their way.
std::uint64_t staging_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const std::uint64_t section = upload_section_chunks(a) * kernels::kRingSlotBytes;
  std::uint64_t bytes = 0;
  for (const MatrixHeader* x : {&a, &b}) {
    const std::uint64_t raw = x->num_blocks * std::uint64_t{input_record_bytes(x->m)};
    bytes += std::min(section, raw) + (raw > section ? section : 0);
  }
  return bytes;
}

/// What sorting by counting, and counting pairs, takes in addition to parsed matrices.
std::uint64_t counting_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const std::uint64_t nb = a.blocks_per_side();
  std::uint64_t bytes = 2u << 20;  // library work space of a scan, flags
  for (const MatrixHeader* x : {&a, &b}) {
    const std::uint64_t blocks = x->num_blocks;
    bytes += 16 * blocks + 12 * nb                                        // entries, sorted keys, counters
             + 8 * blocks + 8 * std::min<std::uint64_t>(blocks, nb) + 4;  // numbers and index
  }
  return bytes + std::uint64_t{4} * a.num_blocks + 24 * (nb + 3);  // rows of B that A's blocks meet, pairs of rows
}

std::uint64_t parsed_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  return (8 + std::uint64_t{2} * a.m * a.m) * (std::uint64_t{a.num_blocks} + b.num_blocks);
}

}  // namespace

bool has_room_to_sort_ahead(const MatrixHeader& a, const MatrixHeader& b) {
  return parsed_bytes(a, b) + staging_bytes(a, b) + counting_bytes(a, b) <= operand_device_bytes(a, b, a.m).build_peak;
}

bool has_room_to_gather_ahead(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t side) {
  const std::uint64_t nb = a.blocks_per_side();
  std::uint64_t taken = 2u << 20;  // flags, counters
  for (const MatrixHeader* x : {&a, &b}) {
    taken += x->num_blocks * (std::uint64_t{2} * x->m * x->m + std::uint64_t{2} * side * side) +
             x->num_blocks * (8 + 8 + 4 + 4) + 12 * nb + 8 * std::min<std::uint64_t>(x->num_blocks, nb) + 4;
  }
  taken += std::uint64_t{24} * a.num_blocks + 24 * (nb + 3);  // rows of B, pairs before each block, pairs of rows
  return taken <= operand_device_bytes(a, b, side).build_peak;
}

bool has_device_row_table(std::uint64_t a_blocks, std::uint32_t nb) {
  return a_blocks >= kernels::kRowTableBlocks && nb <= 2 * a_blocks;
}

std::uint64_t c_block_bytes(std::uint32_t m) {
  return std::uint64_t{4} * m * m  // values
         + 8 + 1 + 8               // coordinates, flag, position
         + 8;                      // share of library work space
}

std::uint64_t panel_c_block_bytes(std::uint32_t m) {
  return dense_panel_c_block_bytes(m) + kEscPairBytes;
}

std::uint64_t dense_panel_c_block_bytes(std::uint32_t m) {
  return 2 * output_record_bytes(m) + c_block_bytes(m);
}

namespace {

constexpr std::uint64_t kWord = sizeof(std::uint32_t);
constexpr std::uint64_t kPlacedTile = 2 * kWord;

}  // namespace

std::uint64_t tile_map_bytes(const kernels::TileGrid& grid) {
  const std::uint64_t words = grid.a_words() + grid.b_words() + grid.b_across_words() + grid.c_words();
  return words * kWord + grid.num_row_tiles() * sizeof(kernels::TileRowCounts) + grid.num_k_tiles() * kWord +
         3 * sizeof(std::uint64_t);
}

std::uint64_t b_tile_bytes(const kernels::TileGrid& grid, std::uint64_t b_tiles) {
  return b_tiles * (kernels::kTileBytesB + kPlacedTile) + grid.num_column_tiles() * kWord + kWord;
}

std::uint64_t tile_panel_bytes(const TileExtent& panel, std::uint32_t m) {
  constexpr std::uint64_t kTask = 8 * kWord;
  const std::uint64_t lists = panel.c_tiles * kTask + panel.stages * sizeof(kernels::TileEntry) +
                              panel.row_tiles * 4 * kWord +                // first tile of A, start in the panel
                              kernels::kMaxLongLists * kWord + 3 * kWord;  // counts
  return panel.c_blocks * dense_panel_c_block_bytes(m) + panel.a_tiles * (kernels::kTileBytesA + kPlacedTile) + lists;
}

}  // namespace spmm::plan
