#include "plan/memory/tile_plan.hpp"

#include <algorithm>

#include "plan/memory/device_bytes.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint32_t);
constexpr std::uint64_t kPlacedTile = 2 * kWord;
constexpr std::uint64_t kTask = 8 * kWord;
constexpr std::uint64_t kMostStages = std::uint64_t{1} << 31;  // of a panel: they are numbered in 32 bits

}  // namespace

void TileExtent::add(const TileExtent& more) {
  row_tiles += more.row_tiles;
  a_tiles += more.a_tiles;
  stages += more.stages;
  c_tiles += more.c_tiles;
  c_blocks += more.c_blocks;
}

void TileExtent::raise(const TileExtent& other) {
  row_tiles = std::max(row_tiles, other.row_tiles);
  a_tiles = std::max(a_tiles, other.a_tiles);
  stages = std::max(stages, other.stages);
  c_tiles = std::max(c_tiles, other.c_tiles);
  c_blocks = std::max(c_blocks, other.c_blocks);
}

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

std::uint64_t tile_map_bytes(const kernels::TileGrid& grid) {
  const std::uint64_t words = grid.a_words() + grid.b_words() + grid.b_across_words() + grid.c_words();
  return words * kWord + grid.num_row_tiles() * sizeof(kernels::TileRowCounts) + grid.num_k_tiles() * kWord +
         3 * sizeof(std::uint64_t);
}

std::uint64_t b_tile_bytes(const kernels::TileGrid& grid, std::uint64_t b_tiles) {
  return b_tiles * (kernels::kTileBytesB + kPlacedTile) + grid.num_column_tiles() * kWord + kWord;
}

std::uint64_t tile_panel_bytes(const TileExtent& panel, std::uint32_t m) {
  const std::uint64_t lists = panel.c_tiles * kTask + panel.stages * sizeof(kernels::TileEntry) +
                              panel.row_tiles * 4 * kWord +                // first tile of A, start in the panel
                              kernels::kMaxLongLists * kWord + 3 * kWord;  // counts
  return panel.c_blocks * dense_tile_device_bytes(m) + panel.a_tiles * (kernels::kTileBytesA + kPlacedTile) + lists;
}

TileExtent max_tile_row(const kernels::TileGrid& grid) {
  return {.row_tiles = 1,
          .a_tiles = grid.num_k_tiles(),
          .stages = std::uint64_t{grid.num_k_tiles()} * grid.num_column_tiles(),
          .c_tiles = grid.num_column_tiles(),
          .c_blocks = std::uint64_t{std::min(grid.num_rows, grid.row_blocks())} * grid.nb};
}

std::uint64_t max_b_tiles(const kernels::TileGrid& grid, std::uint64_t blocks) {
  const std::uint64_t per_block = kernels::kTileDepth % grid.m == 0 ? 1 : 2;
  return std::min(blocks * per_block, std::uint64_t{grid.num_k_tiles()} * grid.num_column_tiles());
}

std::vector<Panel> cut_tile_panels(const kernels::TileGrid& grid, const TileCounts& counts, std::uint64_t max_c_blocks,
                                   std::span<const std::uint32_t> range_rows) {
  std::vector<Panel> panels;
  TileExtent last;  // of the panel that is still growing
  for (std::uint32_t row = 0; row < counts.rows.size(); ++row) {
    const TileExtent extent = tile_row_extent(grid, counts, row);
    if (extent.c_blocks == 0) {  // no pairs: a panel ends here
      last = {};
      continue;
    }
    const bool is_border = std::binary_search(range_rows.begin(), range_rows.end(), row * grid.row_blocks());
    const bool joins = !is_border && last.c_blocks != 0 && last.c_blocks + extent.c_blocks <= max_c_blocks &&
                       last.stages + extent.stages <= kMostStages;
    if (!joins) {
      panels.push_back({.row_begin = row * grid.row_blocks(), .num_columns = grid.nb});
      last = {};
    }
    last.add(extent);
    panels.back().num_rows += grid.rows_of(row);
    panels.back().row_bound = last.c_blocks;
  }
  return panels;
}

}  // namespace spmm::plan
