// The tiles in which row-merge sums small blocks: what decides how much memory they take.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spmm::plan {

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

}  // namespace spmm::plan
