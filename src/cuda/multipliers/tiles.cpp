// Non-empty tiles of both operands as byte planes, the stages of each C tile, and the tensor-core kernel over them.
#include <algorithm>
#include <vector>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/tiles/launch.hpp"
#include "plan/memory/dense_plan.hpp"
#include "plan/panels/tile_panels.hpp"

namespace spmm::cuda {
namespace {

/// Tiles of an operand and where they lie.
struct OperandTiles {
  OperandTiles(DeviceMemory& memory, std::uint64_t max_tiles, std::uint64_t max_lines, std::uint64_t tile_bytes)
      : bytes(memory, max_tiles * tile_bytes, "tiles"),
        tiles(memory, max_tiles, "tile numbers"),
        first_tiles(memory, max_lines, "tile numbers"),
        count(memory, 1, "count") {}

  [[nodiscard]] kernels::TileNumbers numbers() const {
    return {.tiles = tiles.data(), .first_tiles = first_tiles.data(), .count = count.data()};
  }

  DeviceBuffer<std::uint8_t> bytes;
  DeviceBuffer<kernels::OperandTile> tiles;
  DeviceBuffer<std::uint32_t> first_tiles;  // of each line
  DeviceBuffer<std::uint32_t> count;
};

class TileMultiplier : public CBlockFiller {
 public:
  explicit TileMultiplier(const MultiplierContext& context)
      : CBlockFiller(context),
        maps_(c_.operands.tiles),
        grid_(maps_.grid),
        most_(most()),
        a_(c_.memory, most_.a_tiles, most_.row_tiles, kernels::kTileBytesA),
        b_(c_.memory, maps_.counts.b_tiles, grid_.num_column_tiles(), kernels::kTileBytesB),
        starts_(c_.memory, most_.row_tiles, "C tile offsets"),
        tasks_(c_.memory, most_.c_tiles, "C tiles"),
        entries_(c_.memory, most_.stages, "tile products"),
        long_tasks_(c_.memory, kernels::kMaxLongLists, "C tiles"),
        counts_(c_.memory, 2, "count"),
        keys_(c_.memory, c_.max_c_blocks, "C block keys") {
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      number(maps_.b, 0, grid_.num_column_tiles(), b_);
      expand(c_.operands.b_view(), false, maps_.counts.b_tiles, b_);
    });
  }

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    const plan::TileExtent extent = plan::tile_panel_extent(grid_, maps_.counts, panel);
    kernels::CBlocksView c_blocks = all_c_blocks(panel, c_.operands.nb);
    c_blocks.num_c_blocks = extent.c_blocks;
    c_blocks.keys = keys_.data();
    const kernels::TileLists lists{.tasks = tasks_.data(),
                                   .entries = entries_.data(),
                                   .num_entries = counts_.data(),
                                   .long_tasks = long_tasks_.data(),
                                   .num_long = counts_.data() + 1,
                                   .long_entries = kernels::long_tile_entries(extent.stages),
                                   .c_block_keys = keys_.data()};
    c_.events.timed(Stage::count, c_.stream, [&] { list(panel, extent, c_blocks.column_bits, lists); });
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, extent.c_blocks, c_.stream.get()), "clear flags");
      expand(c_.operands.a_view(), true, extent.a_tiles, a_);
      kernels::launch_mul_tile_tensor({.a_tiles = a_.bytes.data(),
                                       .b_tiles = b_.bytes.data(),
                                       .lists = lists,
                                       .num_tasks = static_cast<std::uint32_t>(extent.c_tiles),
                                       .m = grid_.m,
                                       .num_planes = grid_.num_planes,
                                       .shift = shift(),
                                       .results = results},
                                      c_.stream.get());
    });
    return c_blocks;
  }

 private:
  /// The most that any panel has of each.
  [[nodiscard]] plan::TileExtent most() const {
    plan::TileExtent most;
    for (const plan::Panel& panel : c_.execution.panels) {
      most.raise(plan::tile_panel_extent(grid_, maps_.counts, panel));
    }
    return most;
  }

  [[nodiscard]] std::uint32_t shift() const { return plan::low_plane_bits(c_.operands.max_element); }

  void number(const DeviceBuffer<std::uint32_t>& bits, std::uint32_t first_line, std::uint32_t num_lines,
              const OperandTiles& operand) const {
    kernels::launch_number_tiles(bits.data(), grid_.k_words(), first_line, num_lines, operand.numbers(),
                                 c_.stream.get());
  }

  void expand(const kernels::OperandView& view, bool along_row, std::uint64_t count,
              const OperandTiles& operand) const {
    kernels::launch_expand_tiles(view, grid_, along_row, shift(), operand.tiles.data(), count, operand.bytes.data(),
                                 c_.stream.get());
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
    copy_async(starts_.data(), host_starts_.data(), host_starts_.size(),
               c_.stream);  // pageable: read before it returns
    const auto num_row_tiles = static_cast<std::uint32_t>(extent.row_tiles);
    number(maps_.a, first, num_row_tiles, a_);
    kernels::launch_list_tile_tasks(maps_.view(),
                                    {.first_row_tile = first,
                                     .num_row_tiles = num_row_tiles,
                                     .num_c_tiles = static_cast<std::uint32_t>(extent.c_tiles),
                                     .column_bits = column_bits,
                                     .starts = starts_.data()},
                                    a_.first_tiles.data(), b_.first_tiles.data(), lists, c_.stream.get());
  }

  const TileMaps& maps_;
  kernels::TileGrid grid_;
  plan::TileExtent most_;  // of any panel
  OperandTiles a_;         // of one panel
  OperandTiles b_;
  DeviceBuffer<kernels::TileRowStart> starts_;  // [row tiles of a panel]
  DeviceBuffer<kernels::TileTask> tasks_;       // [C tiles of a panel]
  DeviceBuffer<kernels::TileEntry> entries_;    // [stages of a panel]
  DeviceBuffer<std::uint32_t> long_tasks_;      // [kMaxLongLists]
  DeviceBuffer<std::uint32_t> counts_;          // [2]: stages, long lists
  DeviceBuffer<std::uint64_t> keys_;            // [C blocks of a panel]
  std::vector<kernels::TileRowStart> host_starts_;
};

}  // namespace

std::unique_ptr<Multiplier> make_tile_multiplier(const MultiplierContext& context) {
  return std::make_unique<TileMultiplier>(context);
}

}  // namespace spmm::cuda
