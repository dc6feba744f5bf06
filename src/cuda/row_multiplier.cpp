// B by rows: pair lists for panels that are listed, stretches of result rows in shared memory for the others.
#include <algorithm>
#include <array>

#include "cuda/multiplier.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

/// Long lists of a panel at most; 0 where it is not listed.
std::uint64_t max_long_lists(const plan::Panel& panel) {
  const bool possible = panel.expand && panel.max_line_pairs > kernels::kLongList;
  return possible ? panel.num_pairs / kernels::kLongList : 0;
}

std::uint64_t max_long_lists(const std::vector<plan::Panel>& panels) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : panels) most = std::max(most, max_long_lists(panel));
  return most;
}

/// Whether a panel is listed, and sorted as a whole: rows that are all light are sorted one by one.
bool is_sorted_whole(const plan::Panel& panel) {
  return panel.expand && panel.max_line_pairs > kernels::kLightRowPairs;
}

std::uint64_t max_pairs_sorted_whole(const std::vector<plan::Panel>& panels) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : panels) {
    if (is_sorted_whole(panel)) most = std::max(most, panel.num_pairs);
  }
  return most;
}

/// Scratch bytes that suffice to list any of the panels and to find its long lists.
std::size_t list_workspace_bytes(const std::vector<plan::Panel>& panels) {
  const std::uint64_t max_sorted = max_pairs_sorted_whole(panels);
  std::size_t most = max_sorted == 0 ? 0 : kernels::list_pairs_workspace_bytes(max_sorted);
  for (const plan::Panel& panel : panels) {
    if (max_long_lists(panel) != 0) most = std::max(most, kernels::find_long_lists_workspace_bytes(panel.num_pairs));
    if (!panel.expand || is_sorted_whole(panel)) continue;
    most = std::max(most, kernels::list_light_rows_workspace_bytes(panel.num_pairs, panel.max_line_pairs));
  }
  return most;
}

class RowMultiplier : public Multiplier {
 public:
  explicit RowMultiplier(const MultiplierContext& context)
      : c_(context),
        max_pairs_(max_listed_pairs(context.panels)),
        max_sorted_(max_pairs_sorted_whole(context.panels)),
        max_long_(max_long_lists(context.panels)),
        keys_{DeviceBuffer<std::uint64_t>(c_.memory, max_sorted_, "pair keys"),
              DeviceBuffer<std::uint64_t>(c_.memory, max_sorted_, "pair keys")},
        pairs_{DeviceBuffer<kernels::BlockPair>(c_.memory, max_pairs_, "pairs"),
               DeviceBuffer<kernels::BlockPair>(c_.memory, max_sorted_, "pairs")},
        tile_keys_(c_.memory, max_pairs_, "tile keys"),
        offsets_(c_.memory, max_pairs_ + 1, "pair offsets of tiles"),
        num_tiles_(c_.memory, 1, "count"),
        host_num_tiles_(c_.memory.context()),
        long_tiles_(c_.memory, max_long_, "long lists"),
        num_long_(c_.memory, max_long_ == 0 ? 0 : 1, "count"),
        long_sums_(c_.memory, max_long_ * c_.operands.m * c_.operands.m, "sums of long lists"),
        work_(c_.memory, list_workspace_bytes(context.panels), "pair work space"),
        states_(c_.memory, c_.max_tiles + 1, "places of records") {
    if (max_pairs_ != 0) can_be_zero_ = look_for_zeros();
  }

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
      const kernels::LongListsView long_lists = add_long_lists(panel, list);
      kernels::launch_mul_pair_list(operands.a_values.data(), operands.b_values.data(), list, long_lists, tiles,
                                    operands.m, operands.max_element, can_be_zero_, out, c_.stream.get());
    });
  }

 private:
  /// Whether listed tiles can be zero; waits for the stream.
  bool look_for_zeros() {
    const Operands& operands = c_.operands;
    const std::uint64_t elements = std::uint64_t{operands.m} * operands.m;
    std::uint32_t found = 0;
    c_.events.timed(Stage::count, c_.stream, [&] {
      kernels::launch_find_zeros(operands.a_values.data(), operands.a_values.size() / elements,
                                 operands.b_values.data(), operands.b_values.size() / elements, operands.m,
                                 num_tiles_.data(), c_.stream.get());
      found = fetch(num_tiles_.data(), c_.stream);
    });
    return found != 0;
  }

  /// Lists a panel's tiles with their pairs; waits for the stream.
  kernels::PairListView list_pairs(const plan::Panel& panel, kernels::TilesView& tiles) {
    kernels::PairListBuffers buffers{.keys = {{keys_[0].data(), keys_[1].data()}},
                                     .pairs = {{pairs_[0].data(), pairs_[1].data()}},
                                     .tile_keys = tile_keys_.data(),
                                     .offsets = offsets_.data(),
                                     .num_tiles = num_tiles_.data(),
                                     .host_num_tiles = host_num_tiles_.data()};
    const kernels::Workspace work{.data = work_.data(), .bytes = work_.size()};
    if (is_sorted_whole(panel)) {
      kernels::launch_list_pairs(c_.operands.expand_view(), panel.row_begin, panel.num_rows, panel.first_pair,
                                 panel.num_pairs, tiles.column_bits, buffers, work, c_.stream.get());
    } else {
      kernels::launch_list_light_rows(c_.operands.expand_view(), panel.row_begin, panel.num_rows, panel.first_pair,
                                      panel.num_pairs, panel.max_line_pairs, tiles.column_bits, buffers, work,
                                      c_.stream.get());
    }
    c_.stream.synchronize();
    tiles.num_tiles = host_num_tiles_.value();
    tiles.keys = tile_keys_.data();
    return {.num_tiles = tiles.num_tiles, .offsets = offsets_.data(), .pairs = buffers.pairs.front()};
  }

  /// Finds and adds up the long lists of a panel; an empty view where there can be none.
  kernels::LongListsView add_long_lists(const plan::Panel& panel, const kernels::PairListView& list) {
    if (max_long_lists(panel) == 0) return {};
    const kernels::LongListsView found{
        .tiles = long_tiles_.data(), .count = num_long_.data(), .sums = long_sums_.data()};
    kernels::launch_find_long_lists(list, found, {.data = work_.data(), .bytes = work_.size()}, c_.stream.get());
    kernels::launch_add_long_lists(c_.operands.a_values.data(), c_.operands.b_values.data(), list, panel.num_pairs,
                                   c_.operands.m, found, c_.stream.get());
    return found;
  }

  MultiplierContext c_;
  std::uint64_t max_pairs_;                                // of a listed panel
  std::uint64_t max_sorted_;                               // of one that is sorted as a whole
  std::uint64_t max_long_;                                 // long lists of a panel at most
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;        // [max_sorted] each
  std::array<DeviceBuffer<kernels::BlockPair>, 2> pairs_;  // [max_pairs], [max_sorted]
  DeviceBuffer<std::uint64_t> tile_keys_;                  // [max_pairs]
  DeviceBuffer<std::uint32_t> offsets_;                    // [max_pairs + 1]
  DeviceBuffer<std::uint32_t> num_tiles_;
  PinnedWord host_num_tiles_;
  DeviceBuffer<std::uint32_t> long_tiles_;  // [max_long]
  DeviceBuffer<std::uint32_t> num_long_;
  DeviceBuffer<std::uint64_t> long_sums_;  // [max_long, m, m]
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<std::uint64_t> states_;  // [max_tiles + 1]
  bool can_be_zero_ = true;
};

}  // namespace

std::unique_ptr<Multiplier> make_row_multiplier(const MultiplierContext& context) {
  return std::make_unique<RowMultiplier>(context);
}

}  // namespace spmm::cuda
