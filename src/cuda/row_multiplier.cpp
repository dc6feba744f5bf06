// B by rows: pair lists for panels that are listed, stretches of result rows in shared memory for the others.
#include <array>

#include "cuda/multiplier.hpp"

namespace spmm::cuda {
namespace {

class RowMultiplier : public Multiplier {
 public:
  explicit RowMultiplier(const MultiplierContext& context)
      : c_(context),
        max_pairs_(max_listed_pairs(context.panels)),
        keys_{DeviceBuffer<std::uint64_t>(c_.memory, max_pairs_, "pair keys"),
              DeviceBuffer<std::uint64_t>(c_.memory, max_pairs_, "pair keys")},
        pairs_{DeviceBuffer<kernels::BlockPair>(c_.memory, max_pairs_, "pairs"),
               DeviceBuffer<kernels::BlockPair>(c_.memory, max_pairs_, "pairs")},
        tile_keys_(c_.memory, max_pairs_, "tile keys"),
        offsets_(c_.memory, max_pairs_ + 1, "pair offsets of tiles"),
        num_tiles_(c_.memory, 1, "count"),
        work_(c_.memory, max_pairs_ == 0 ? 0 : kernels::list_pairs_workspace_bytes(max_pairs_), "pair work space"),
        states_(c_.memory, c_.max_tiles + 1, "places of records") {}

  void multiply(const plan::Panel& panel, PackedPanel& target) override {
    const Operands& operands = c_.operands;
    const kernels::RecordOutput out{.records = reinterpret_cast<std::uint32_t*>(target.records.data()),
                                    .rows = operands.a.lines.data(),
                                    .states = states_.data(),
                                    .num_blocks = target.num_blocks.data()};
    kernels::TilesView tiles = all_tiles(panel, operands.num_tile_columns());
    if (!panel.expand) {
      c_.events.timed(Stage::multiply, c_.stream, [&] {
        kernels::launch_mul_row_spread(operands.a_view(), operands.b_view(), operands.b_row_slots.data(), tiles,
                                       operands.m, operands.max_element, out, c_.stream.get());
      });
      return;
    }
    kernels::PairListView list;
    c_.events.timed(Stage::count, c_.stream, [&] { list = list_pairs(panel, tiles); });
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      kernels::launch_mul_pair_list(operands.a_values.data(), operands.b_values.data(), list, tiles, operands.m,
                                    operands.max_element, out, c_.stream.get());
    });
  }

 private:
  /// Lists a panel's tiles with their pairs; waits for the stream.
  kernels::PairListView list_pairs(const plan::Panel& panel, kernels::TilesView& tiles) {
    kernels::PairListBuffers buffers{.keys = {{keys_[0].data(), keys_[1].data()}},
                                     .pairs = {{pairs_[0].data(), pairs_[1].data()}},
                                     .tile_keys = tile_keys_.data(),
                                     .offsets = offsets_.data(),
                                     .num_tiles = num_tiles_.data(),
                                     .host_num_tiles = host_num_tiles_.data()};
    kernels::launch_list_pairs(c_.operands.expand_view(), panel.row_begin, panel.num_rows, panel.first_pair,
                               panel.num_pairs, tiles.column_bits, buffers,
                               {.data = work_.data(), .bytes = work_.size()}, c_.stream.get());
    c_.stream.synchronize();
    tiles.num_tiles = host_num_tiles_[0];
    tiles.keys = tile_keys_.data();
    return {.num_tiles = tiles.num_tiles, .offsets = offsets_.data(), .pairs = buffers.pairs.front()};
  }

  MultiplierContext c_;
  std::uint64_t max_pairs_;
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;        // [max_pairs] each
  std::array<DeviceBuffer<kernels::BlockPair>, 2> pairs_;  // [max_pairs] each
  DeviceBuffer<std::uint64_t> tile_keys_;                  // [max_pairs]
  DeviceBuffer<std::uint32_t> offsets_;                    // [max_pairs + 1]
  DeviceBuffer<std::uint32_t> num_tiles_;
  PinnedBuffer<std::uint32_t> host_num_tiles_{1};
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<std::uint64_t> states_;  // [max_tiles + 1]
};

}  // namespace

std::unique_ptr<Multiplier> make_row_multiplier(const MultiplierContext& context) {
  return std::make_unique<RowMultiplier>(context);
}

}  // namespace spmm::cuda
