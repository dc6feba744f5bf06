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
  constexpr std::uint64_t kCounts = 4 + 8 + 8;  // per block of A: block row of B, pairs before it, pairs before its row
  constexpr std::uint64_t kKey = 8;
  constexpr std::uint64_t kSort = 8 + 4 + 4;  // the other key buffer, record numbers twice
  constexpr std::uint64_t kWork = 64u << 20;  // upload ring on the device, then library work space; flags and counts
  const std::uint64_t index = IndexLayout(a.num_blocks, a.blocks_per_side()).bytes() + a.num_blocks * kCounts +
                              2 * IndexLayout(b.num_blocks, b.blocks_per_side()).bytes();  // B in both orders
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

std::uint64_t tile_panel_bytes(const TileExtent& panel, std::uint32_t m) {
  return panel.c_blocks * dense_panel_c_block_bytes(m) +
         kernels::OperandTileLayout(panel.a_tiles, panel.row_tiles, kernels::kTileBytesA).total +
         kernels::TileListLayout(panel.row_tiles, panel.c_tiles, panel.stages).total;
}

}  // namespace spmm::plan
