// Panels of tile-tensor: whole rows of tiles, cut by the tiles that are counted. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tiles/grid.hpp"
#include "plan/panels/panels.hpp"

namespace spmm::plan {

/// No limit on the products of tiles that are worth counting.
inline constexpr std::uint64_t kAnyTileStages = ~std::uint64_t{0};

/// Non-empty tiles of a product, once they are counted.
struct TileCounts {
  bool counted = false;
  std::uint64_t a_tiles = 0;
  std::uint64_t b_tiles = 0;
  std::uint64_t stages = 0;                    ///< tiles of A times tiles of B that meet
  std::vector<kernels::TileRowCounts> rows{};  ///< [row tiles]; empty: too many stages to be worth more
  friend bool operator==(const TileCounts&, const TileCounts&) = default;
};

/// What is in some rows of tiles, or in the largest of several panels.
struct TileExtent {
  std::uint64_t row_tiles = 0;
  std::uint64_t a_tiles = 0;
  std::uint64_t stages = 0;
  std::uint64_t c_tiles = 0;
  std::uint64_t c_blocks = 0;

  void add(const TileExtent& more) {
    row_tiles += more.row_tiles;
    a_tiles += more.a_tiles;
    stages += more.stages;
    c_tiles += more.c_tiles;
    c_blocks += more.c_blocks;
  }
};

/// A row of tiles as it was counted.
TileExtent tile_row_extent(const kernels::TileGrid& grid, const TileCounts& counts, std::uint32_t row_tile);

/// Some rows of tiles as a panel has them; the most of each that one of several panels has.
TileExtent tile_panel_extent(const kernels::TileGrid& grid, const TileCounts& counts, const Panel& panel);
TileExtent most_of_panels(const kernels::TileGrid& grid, const TileCounts& counts, const std::vector<Panel>& panels);

/// Before tiles are counted: all of them are there.
TileCounts all_tiles(const kernels::TileGrid& grid, std::uint64_t b_blocks);

/// Panels of rows of tiles that have C tiles: at most max_c_blocks C blocks each, or one row of tiles.
std::vector<Panel> cut_tile_panels(const kernels::TileGrid& grid, const TileCounts& counts, std::uint64_t max_c_blocks);

}  // namespace spmm::plan
