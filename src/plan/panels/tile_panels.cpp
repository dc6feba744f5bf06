// How panels of tile-tensor are cut from the counted tiles.
#include "plan/panels/tile_panels.hpp"

#include <algorithm>

namespace spmm::plan {
TileExtent tile_row_extent(const kernels::TileGrid& grid, const TileCounts& counts, std::uint32_t row_tile) {
  const kernels::TileRowCounts& row = counts.rows[row_tile];
  return {.row_tiles = 1,
          .a_tiles = row.a_tiles,
          .stages = row.stages,
          .c_tiles = row.c_tiles,
          .c_blocks = std::uint64_t{row.c_columns} * grid.rows_of(row_tile)};
}

TileExtent tile_panel_extent(const kernels::TileGrid& grid, const TileCounts& counts, const Panel& panel) {
  TileExtent all;
  const std::uint32_t first = panel.row_begin / grid.row_blocks();
  const std::uint32_t last = (panel.row_begin + panel.num_rows - 1) / grid.row_blocks();
  for (std::uint32_t row = first; row <= last; ++row) all.add(tile_row_extent(grid, counts, row));
  return all;
}

TileExtent most_of_panels(const kernels::TileGrid& grid, const TileCounts& counts, const std::vector<Panel>& panels) {
  TileExtent most;
  for (const Panel& panel : panels) {
    const TileExtent one = tile_panel_extent(grid, counts, panel);
    most = {.row_tiles = std::max(most.row_tiles, one.row_tiles),
            .a_tiles = std::max(most.a_tiles, one.a_tiles),
            .stages = std::max(most.stages, one.stages),
            .c_tiles = std::max(most.c_tiles, one.c_tiles),
            .c_blocks = std::max(most.c_blocks, one.c_blocks)};
  }
  return most;
}

TileCounts all_tiles(const kernels::TileGrid& grid, std::uint64_t b_blocks) {
  const std::uint64_t k_tiles = grid.num_k_tiles();
  const std::uint64_t column_tiles = grid.num_column_tiles();
  const std::uint64_t per_block = kernels::kTileDepth % grid.m == 0 ? 1 : 2;
  TileCounts all{.counted = true, .b_tiles = std::min(b_blocks * per_block, k_tiles * column_tiles)};
  all.rows.assign(grid.num_row_tiles(), {.a_tiles = static_cast<std::uint32_t>(k_tiles),
                                         .stages = static_cast<std::uint32_t>(k_tiles * column_tiles),
                                         .c_tiles = static_cast<std::uint32_t>(column_tiles),
                                         .c_columns = grid.nb});
  return all;
}

std::vector<Panel> cut_tile_panels(const kernels::TileGrid& grid, const TileCounts& counts,
                                   std::uint64_t max_c_blocks) {
  RowPairs c_blocks{.rows_per_run = grid.row_blocks(), .num_rows = grid.num_rows};  // a run is a row of tiles
  for (std::uint32_t row = 0; row < counts.rows.size(); ++row) {
    const std::uint64_t of_row = tile_row_extent(grid, counts, row).c_blocks;
    max_c_blocks = std::max(max_c_blocks, of_row);
    c_blocks.offsets.push_back(c_blocks.offsets.back() + of_row);
  }
  std::vector<Panel> panels = cut_panels(c_blocks, grid.nb, max_c_blocks, Listing::bounded);
  for (Panel& panel : panels) panel.first_pair = panel.num_pairs = panel.max_row_pairs = 0;  // tiles have no pairs
  return panels;
}

}  // namespace spmm::plan
