// Tiles of both operands as byte planes, and the tensor-core kernels over them: dense-tensor takes all tiles, B's by
// groups of block columns, tile-tensor lists those that are not empty.
#include <algorithm>
#include <vector>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/tiles/launch.hpp"
#include "plan/panels/tile_panels.hpp"

namespace spmm::cuda {
namespace {

/// Array of T at an offset of a piece of memory.
template <class T>
T* array_at(const DeviceBuffer<std::byte>& memory, std::uint64_t offset) {
  return reinterpret_cast<T*>(memory.data() + offset);
}

class FullMultiplier : public CBlockFiller {
 public:
  explicit FullMultiplier(const MultiplierContext& context) : CBlockFiller(context) {
    const std::uint32_t num_planes = c_.execution.num_planes;
    const kernels::TileGrid most = grid_of(c_.max_rows(), c_.execution.dense_columns, 1);
    a_.bytes = {c_.memory, num_planes * most.a_plane_bytes(), "byte planes of A"};
    b_.bytes = {c_.memory, num_planes * most.b_plane_bytes(), "byte planes of B"};
    counts_ = {c_.memory, 2, "counts"};
    if (c_.most([](const plan::Panel& panel) { return panel.prefilter; }) == 0) return;
    high_a_.bytes = {c_.memory, most.a_plane_bytes(), "high bytes of A"};
    high_b_.bytes = {c_.memory, most.b_plane_bytes(), "high bytes of B"};
    done_ = {c_.memory, most.c_tiles(), "saturated tiles"};
  }

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    const std::uint32_t group = c_.execution.dense_columns;
    const std::uint32_t nb = c_.operands.nb;
    c_.timed(Stage::multiply, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, std::uint64_t{panel.num_rows} * panel.num_columns, c_.stream().get()),
            "clear flags");
      a_.is_there = high_a_.is_there = false;
      for (std::uint32_t first = 0; first < nb; first += std::min(group, nb - first)) {
        if (group != nb) b_.is_there = high_b_.is_there = false;
        multiply(panel, results, first, std::min(group, nb - first));
      }
    });
    return c_.all_c_blocks(panel);
  }

 private:
  struct Tiles {
    DeviceBuffer<std::uint8_t> bytes;
    bool is_there = false;
  };

  [[nodiscard]] kernels::TileGrid grid_of(std::uint32_t rows, std::uint32_t columns, std::uint32_t planes) const {
    return {.m = c_.operands.m,
            .num_rows = rows,
            .nb = c_.operands.nb,
            .num_columns = columns,
            .num_planes = planes,
            .is_full = true};
  }

  /// Block columns [first, first + count) of a panel. What high bytes prove saturated is finished with them; a panel
  /// depends on nothing that another one found.
  void multiply(const plan::Panel& panel, const kernels::CBlockResults& results, std::uint32_t first,
                std::uint32_t count) {
    kernels::TileProduct product{.grid = grid_of(panel.num_rows, count, 1),
                                 .lists = {},
                                 .first_block_column = first,
                                 .num_block_columns = panel.num_columns,
                                 .next_task = counts_.data(),
                                 .saturated = {},
                                 .results = results};
    if (panel.prefilter) {
      product.saturated = {.done = done_.data(), .num_left = counts_.data() + 1};
      expand(panel, high_a_, high_b_, product);
      kernels::launch_mul_high_bytes(product, c_.stream().get());
      if (fetch(counts_.data() + 1, c_.stream()) == 0) return;
    }
    product.grid.num_planes = c_.execution.num_planes;
    expand(panel, a_, b_, product);
    kernels::launch_mul_tiles(product, c_.stream().get());
  }

  /// Writes the tiles of the product's grid that are not there yet.
  void expand(const plan::Panel& panel, Tiles& a, Tiles& b, kernels::TileProduct& product) const {
    const kernels::TileGrid& grid = product.grid;
    product.a_tiles = a.bytes.data();
    product.b_tiles = b.bytes.data();
    product.num_tasks = static_cast<std::uint32_t>(grid.c_tiles());
    product.shift = kernels::low_plane_bits(c_.operands.max_element, grid.num_planes);
    const auto write = [&](Tiles& tiles, const kernels::TileSource& source, std::uint64_t count) {
      if (!tiles.is_there) {
        kernels::launch_expand_tiles(source, nullptr, count, tiles.bytes.data(), c_.stream().get());
      }
      tiles.is_there = true;
    };
    write(a, {.operand = c_.operands.a_view(), .grid = grid, .first = panel.row_begin, .shift = product.shift},
          grid.a_tiles());
    write(b,
          {.operand = c_.operands.b_view(),
           .grid = grid,
           .along_row = false,
           .first = product.first_block_column,
           .shift = product.shift},
          grid.b_tiles());
  }

  Tiles a_;  // of one panel
  Tiles b_;  // of one group
  Tiles high_a_;
  Tiles high_b_;
  DeviceBuffer<std::uint8_t> done_;     // [C tiles of high bytes]
  DeviceBuffer<std::uint32_t> counts_;  // [2]: next tile, tiles that are not saturated
};

class TileMultiplier : public CBlockFiller {
 public:
  explicit TileMultiplier(const MultiplierContext& context)
      : CBlockFiller(context),
        maps_(c_.operands.tiles),
        grid_(maps_.grid),
        shift_(kernels::low_plane_bits(c_.operands.max_element, grid_.num_planes)),
        most_(plan::most_of_panels(grid_, maps_.counts, c_.execution.panels)),
        a_layout_(most_.a_tiles, most_.row_tiles, kernels::kTileBytesA),
        b_layout_(maps_.counts.b_tiles, grid_.num_column_tiles(), kernels::kTileBytesB),
        layout_(most_.row_tiles, most_.c_tiles, most_.stages),
        a_(c_.memory, a_layout_.total, "tiles of A"),
        b_(c_.memory, b_layout_.total, "tiles of B"),
        lists_(c_.memory, layout_.total, "lists of tiles"),
        keys_(c_.memory, c_.max_c_blocks(), "C block keys") {
    c_.timed(Stage::multiply, [&] {
      number(maps_.b, 0, grid_.num_column_tiles(), b_, b_layout_);
      expand(false, maps_.counts.b_tiles, b_, b_layout_);
    });
  }

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    const plan::TileExtent extent = plan::tile_panel_extent(grid_, maps_.counts, panel);
    kernels::CBlocksView c_blocks = c_.all_c_blocks(panel);
    c_blocks.num_c_blocks = extent.c_blocks;
    c_blocks.keys = keys_.data();
    auto* const counts = array_at<std::uint32_t>(lists_, layout_.counts);
    const kernels::TileLists lists{.tasks = array_at<kernels::TileTask>(lists_, layout_.tasks),
                                   .entries = array_at<kernels::TileEntry>(lists_, layout_.entries),
                                   .num_entries = counts,
                                   .long_tasks = array_at<std::uint32_t>(lists_, layout_.long_tasks),
                                   .num_long = counts + 1,
                                   .long_entries = kernels::long_tile_entries(extent.stages),
                                   .c_block_keys = keys_.data()};
    c_.timed(Stage::count, [&] { list(panel, extent, c_blocks.column_bits, lists); });
    c_.timed(Stage::multiply, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, extent.c_blocks, c_.stream().get()), "clear flags");
      expand(true, extent.a_tiles, a_, a_layout_);
      kernels::launch_mul_tiles({.grid = grid_,
                                 .a_tiles = array_at<std::uint8_t>(a_, a_layout_.bytes),
                                 .b_tiles = array_at<std::uint8_t>(b_, b_layout_.bytes),
                                 .lists = lists,
                                 .num_tasks = static_cast<std::uint32_t>(extent.c_tiles),
                                 .shift = shift_,
                                 .saturated = {},
                                 .results = results},
                                c_.stream().get());
    });
    return c_blocks;
  }

 private:
  void number(const DeviceBuffer<std::uint32_t>& bits, std::uint32_t first_line, std::uint32_t num_lines,
              const DeviceBuffer<std::byte>& memory, const kernels::OperandTileLayout& layout) const {
    kernels::launch_number_tiles(bits.data(), grid_.k_words(), first_line, num_lines,
                                 {.tiles = array_at<kernels::OperandTile>(memory, layout.tiles),
                                  .first_tiles = array_at<std::uint32_t>(memory, layout.first_tiles),
                                  .count = array_at<std::uint32_t>(memory, layout.count)},
                                 c_.stream().get());
  }

  void expand(bool along_row, std::uint64_t count, const DeviceBuffer<std::byte>& memory,
              const kernels::OperandTileLayout& layout) const {
    kernels::launch_expand_tiles({.operand = along_row ? c_.operands.a_view() : c_.operands.b_view(),
                                  .grid = grid_,
                                  .along_row = along_row,
                                  .shift = shift_},
                                 array_at<kernels::OperandTile>(memory, layout.tiles), count,
                                 array_at<std::uint8_t>(memory, layout.bytes), c_.stream().get());
  }

  /// Numbers the tiles of A in a panel, and lists its C tiles.
  void list(const plan::Panel& panel, const plan::TileExtent& extent, std::uint32_t column_bits,
            const kernels::TileLists& lists) {
    const std::uint32_t first = panel.row_begin / grid_.row_blocks();
    host_starts_.clear();
    plan::TileExtent before;
    for (std::uint32_t row = first; row < first + extent.row_tiles; ++row) {
      host_starts_.push_back({.first_c_tile = static_cast<std::uint32_t>(before.c_tiles),
                              .first_c_block = static_cast<std::uint32_t>(before.c_blocks),
                              .c_columns = maps_.counts.rows[row].c_columns});
      before.add(plan::tile_row_extent(grid_, maps_.counts, row));
    }
    auto* const starts = array_at<kernels::TileRowStart>(lists_, layout_.starts);
    copy_async(starts, host_starts_.data(), host_starts_.size(), c_.stream());  // pageable: read before it returns
    const auto num_row_tiles = static_cast<std::uint32_t>(extent.row_tiles);
    number(maps_.a, first, num_row_tiles, a_, a_layout_);
    kernels::launch_list_tile_tasks(maps_.view(),
                                    {.first_row_tile = first,
                                     .num_row_tiles = num_row_tiles,
                                     .num_c_tiles = static_cast<std::uint32_t>(extent.c_tiles),
                                     .column_bits = column_bits,
                                     .starts = starts},
                                    array_at<std::uint32_t>(a_, a_layout_.first_tiles),
                                    array_at<std::uint32_t>(b_, b_layout_.first_tiles), lists, c_.stream().get());
  }

  const TileMaps& maps_;
  kernels::TileGrid grid_;
  std::uint32_t shift_;
  plan::TileExtent most_;  // of any panel
  kernels::OperandTileLayout a_layout_;
  kernels::OperandTileLayout b_layout_;
  kernels::TileListLayout layout_;
  DeviceBuffer<std::byte> a_;  // of one panel
  DeviceBuffer<std::byte> b_;
  DeviceBuffer<std::byte> lists_;     // of one panel
  DeviceBuffer<std::uint64_t> keys_;  // [C blocks of a panel]
  std::vector<kernels::TileRowStart> host_starts_;
};

}  // namespace

std::unique_ptr<Multiplier> make_dense_tensor(const MultiplierContext& context) {
  return std::make_unique<FullMultiplier>(context);
}

std::unique_ptr<Multiplier> make_tile_tensor(const MultiplierContext& context) {
  return std::make_unique<TileMultiplier>(context);
}

}  // namespace spmm::cuda
