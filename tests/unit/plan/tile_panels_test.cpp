// Tiles of tile-tensor: numbering, lists of stages, panels, and when they are counted and picked.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "plan/choice.hpp"
#include "plan/panels/tile_panels.hpp"
#include "plan/registry.hpp"
#include "plan/rule.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using kernels::TileGrid;

/// Exact statistics of so many blocks, every row with as many pairs.
plan::Counts with_row_pairs(std::uint32_t nb, std::uint32_t m, double blocks, std::uint64_t row_pairs,
                            std::uint32_t max_element) {
  plan::Counts s = evenly_spread(nb * m, m, blocks, max_element);
  s.exact = true;
  s.row_pairs = {.num_rows = static_cast<std::uint32_t>(s.a_rows), .max_row_pairs = row_pairs};
  for (std::uint64_t row = 1; row <= s.a_rows; ++row) s.row_pairs.offsets.push_back(row * row_pairs);
  s.num_pairs = static_cast<double>(s.row_pairs.offsets.back());
  return s;
}

/// Dense groups along the diagonal.
plan::Counts grouped(std::uint32_t nb, std::uint32_t m, std::uint32_t group, std::uint32_t max_element) {
  plan::Counts s = with_row_pairs(nb, m, double(nb) * group, std::uint64_t{group} * group, max_element);
  s.num_c_blocks = std::min(s.num_pairs, double(nb) * nb);
  return s;
}

/// What counting finds there.
plan::TileCounts count_groups(const TileGrid& grid, std::uint32_t group) {
  plan::TileCounts counts{.counted = true};
  std::set<std::pair<std::uint32_t, std::uint32_t>> b_tiles;
  for (std::uint32_t i = 0; i < grid.nb; ++i) {
    const std::uint32_t first = i / group * group;
    for (std::uint32_t k = grid.first_k_tile(i); k <= grid.last_k_tile(i); ++k) {
      for (std::uint32_t c = first / grid.column_blocks(); c <= (first + group - 1) / grid.column_blocks(); ++c) {
        b_tiles.insert({k, c});
      }
    }
  }
  std::map<std::uint32_t, std::set<std::uint32_t>> columns;
  for (const auto& [k, c] : b_tiles) columns[k].insert(c);
  for (std::uint32_t row = 0; row < grid.num_row_tiles(); ++row) {
    const std::uint32_t begin = row * grid.row_blocks();
    const std::uint32_t first = begin / group * group;
    const std::uint32_t last = std::min(grid.nb, ((begin + grid.rows_of(row) - 1) / group + 1) * group) - 1;
    kernels::TileRowCounts one;
    std::set<std::uint32_t> c_tiles;
    for (std::uint32_t k = grid.first_k_tile(first); k <= grid.last_k_tile(last); ++k) {
      ++one.a_tiles;
      one.stages += static_cast<std::uint32_t>(columns[k].size());
      c_tiles.insert(columns[k].begin(), columns[k].end());
    }
    one.c_tiles = static_cast<std::uint32_t>(c_tiles.size());
    for (const std::uint32_t c : c_tiles) one.c_columns += grid.columns_of(c);
    counts.rows.push_back(one);
    counts.a_tiles += one.a_tiles;
    counts.stages += one.stages;
  }
  counts.b_tiles = b_tiles.size();
  return counts;
}

}  // namespace

TEST_CASE("tiles hold every block once along rows and columns, and every element along K") {
  for (std::uint32_t m = 1; m <= 64; ++m) {
    for (const std::uint32_t planes : {1u, 2u}) {
      const TileGrid grid{.m = m, .num_rows = 777, .nb = 1000, .num_columns = 1000, .num_planes = planes};
      INFO("m " << m << ", " << planes << " planes");
      REQUIRE(grid.row_blocks() * m * planes <= kernels::kTileRowsA);
      REQUIRE(grid.column_blocks() * m * planes <= kernels::kTileRowsB);
      std::uint32_t rows = 0, columns = 0;
      for (std::uint32_t tile = 0; tile < grid.num_row_tiles(); ++tile) rows += grid.rows_of(tile);
      for (std::uint32_t tile = 0; tile < grid.num_column_tiles(); ++tile) columns += grid.columns_of(tile);
      REQUIRE(rows == grid.num_rows);
      REQUIRE(columns == grid.nb);
      REQUIRE(grid.num_k_tiles() == (1000 * m + 127) / 128);
      for (std::uint32_t block = 0; block < grid.nb; ++block) {
        REQUIRE(grid.first_k_tile(block) == block * m / 128);
        REQUIRE(grid.last_k_tile(block) == (block * m + m - 1) / 128);
        for (std::uint32_t k = grid.first_k_tile(block); k <= grid.last_k_tile(block); ++k) {
          REQUIRE(grid.first_k_block(k) <= block);
          REQUIRE(block < grid.end_k_block(k));
        }
      }
      for (std::uint32_t k = 0; k < grid.num_k_tiles(); ++k) {
        REQUIRE(grid.last_k_tile(grid.first_k_block(k)) >= k);
        REQUIRE(grid.first_k_tile(grid.end_k_block(k) - 1) <= k);
      }
    }
  }
}

TEST_CASE("each byte of a tile has its own place, 16 bytes along K stay together") {
  for (const std::uint32_t planes : {1u, 2u}) {
    std::set<std::uint32_t> places;
    for (std::uint32_t row = 0; row < kernels::kTileRowsB / planes; ++row) {
      for (std::uint32_t plane = 0; plane < planes; ++plane) {
        for (std::uint32_t k = 0; k < kernels::kTileDepth; ++k) {
          const std::uint32_t at = kernels::tile_byte(row, plane, k, planes);
          places.insert(at);
          REQUIRE(at < kernels::kTileBytesB);
          REQUIRE(at % 16 == k % 16);
          REQUIRE(at - k % 16 == kernels::tile_byte(row, plane, k / 16 * 16, planes));
        }
      }
    }
    CHECK(places.size() == kernels::kTileBytesB);
  }
  // Address bits 4 to 6 are those of the piece, combined with bits 7 to 9 (128-byte swizzle).
  CHECK(kernels::tile_byte(0, 0, 17, 1) == 17);
  CHECK(kernels::tile_byte(3, 0, 0, 1) == 3 * 128 + 3 * 16);
  CHECK(kernels::tile_byte(9, 1, 20, 2) == (16 + 8 + 1) * 128 + 0 * 16 + 4);
}

TEST_CASE("panels are runs of rows of tiles with C blocks, as large as they may be") {
  const TileGrid grid{
      .m = 8, .num_rows = 100, .nb = 500, .num_columns = 500, .num_planes = 2};  // rows of 8, the last one of 4
  plan::TileCounts counts{.counted = true};
  for (std::uint32_t row = 0; row < grid.num_row_tiles(); ++row) {
    const std::uint32_t columns = row == 3 || row == 4 || row == 9 ? 0 : 10;
    counts.rows.push_back({.a_tiles = 2, .stages = columns / 10 * 3, .c_tiles = columns / 10, .c_columns = columns});
  }
  for (const std::uint64_t most : {1u, 79u, 80u, 160u, 250u, 100'000u}) {
    const std::vector<plan::Panel> panels = plan::cut_tile_panels(grid, counts, most);
    std::uint64_t c_blocks = 0;
    std::uint32_t end = 0;
    for (const plan::Panel& panel : panels) {
      REQUIRE(panel.row_begin % grid.row_blocks() == 0);
      REQUIRE(panel.row_begin >= end);
      end = panel.row_begin + panel.num_rows;
      REQUIRE(end <= grid.num_rows);
      const plan::TileExtent extent = plan::tile_panel_extent(grid, counts, panel);
      REQUIRE(extent.c_blocks == panel.max_c_blocks());
      REQUIRE((extent.c_blocks <= most || extent.c_tiles == 1));
      c_blocks += extent.c_blocks;
    }
    CHECK(c_blocks == 9 * 80 + 40);
    CHECK(panels.size() == (most < 160 ? 10u : most < 240 ? 5u : most < 320 ? 4u : 1u));
  }
}

TEST_CASE("tile-tensor is picked for dense groups once their tiles are counted, and only then") {
  const plan::Limits limits = large_machine();
  for (const std::uint32_t m : {8u, 6u, 48u}) {
    plan::Counts s = grouped(m == 48 ? 1024 : 65'536, m, 64, 2047);
    const plan::Choice before = plan::decide(s, limits);
    INFO("m " << m);
    CHECK(before.kernel != "tile-tensor");
    REQUIRE(before.wants_tile_counts);
    s.tiles = count_groups(plan::tile_grid(s), 64);
    CHECK(s.tiles.stages <= before.max_tile_stages);
    const plan::Choice e = plan::decide(s, limits);
    CHECK(e.kernel == "tile-tensor");
    CHECK_FALSE(e.wants_tile_counts);
    CHECK(e.panels.size() >= 1);
    CHECK(e.device_need_bytes <= limits.gpus[0].bytes);
    plan::Limits old = limits;
    old.gpus[0].has_dense_tensor = false;
    CHECK(plan::decide(s, old).kernel != "tile-tensor");
    s.tiles.rows.clear();  // too many stages to be listed
    CHECK(plan::decide(s, limits).kernel != "tile-tensor");
  }
}

TEST_CASE("where every tile is full, dense-tensor stays") {
  plan::Counts s = with_row_pairs(4096, 8, 8.8e6, 4'614'000, 1000);  // S3, nothing saturates early
  const plan::Choice before = plan::decide(s, large_machine());
  REQUIRE(before.kernel == "dense-tensor");
  s.tiles = plan::all_tiles(plan::tile_grid(s), s.b.num_blocks);
  CHECK(plan::decide(s, large_machine()).kernel == "dense-tensor");
}

TEST_CASE("panels of tile-tensor shrink with the memory") {
  plan::Counts s = grouped(65'536, 8, 64, 2047);
  s.tiles = count_groups(plan::tile_grid(s), 64);
  plan::Limits limits = large_machine();
  limits.kernel = plan::kernel_named("tile-tensor");
  std::size_t panels = 0;
  for (const std::uint64_t bytes : {100ull << 30, 5ull << 30, 3ull << 30, 2500ull << 20}) {
    limits.gpus[0].bytes = bytes;
    const plan::Choice e = plan::decide(s, limits);
    INFO(bytes);
    REQUIRE_FALSE(e.is_refused());
    CHECK(e.device_need_bytes <= bytes);
    CHECK(e.panels.size() > panels);
    panels = e.panels.size();
  }
  limits.gpus[0].bytes = std::uint64_t{1} << 30;
  CHECK(plan::decide(s, limits).is_refused());
}
