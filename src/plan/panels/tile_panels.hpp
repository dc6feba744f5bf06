// Panels of tile-tensor: whole rows of tiles, cut by the tiles that are counted. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
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

  void add(const TileExtent& more) { combine(more, std::plus<>()); }
  /// The larger of each.
  void raise(const TileExtent& other) {
    combine(other, [](std::uint64_t x, std::uint64_t y) { return std::max(x, y); });
  }

 private:
  template <class Combine>
  void combine(const TileExtent& other, const Combine& of) {
    for (std::uint64_t TileExtent::*const field : {&TileExtent::row_tiles, &TileExtent::a_tiles, &TileExtent::stages,
                                                   &TileExtent::c_tiles, &TileExtent::c_blocks}) {
      this->*field = of(this->*field, other.*field);
    }
  }
};

/// A row of tiles as it was counted.
TileExtent tile_row_extent(const kernels::TileGrid& grid, const TileCounts& counts, std::uint32_t row_tile);

/// Some rows of tiles as a panel has them.
TileExtent tile_panel_extent(const kernels::TileGrid& grid, const TileCounts& counts, const Panel& panel);

/// Most that a row of tiles can hold, and most tiles that so many blocks of B lie in.
TileExtent max_tile_row(const kernels::TileGrid& grid);
std::uint64_t max_b_tiles(const kernels::TileGrid& grid, std::uint64_t blocks);

/// Panels of rows of tiles that have C tiles: at most max_c_blocks C blocks each, or one row of tiles.
std::vector<Panel> cut_tile_panels(const kernels::TileGrid& grid, const TileCounts& counts, std::uint64_t max_c_blocks);

}  // namespace spmm::plan
