// B by rows: ESC for panels that are listed, row-spread for the others.
#include <algorithm>
#include <array>
#include <map>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/pairs/launch.hpp"
#include "kernels/rows/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

/// Places for sums of split-K blocks of a panel; 0 if it can have none.
std::uint64_t max_split_k(const plan::Panel& panel) {
  const bool possible = panel.expand && panel.max_row_pairs > kernels::kSplitKPairs;
  return possible ? kernels::num_split_k_slots(panel.num_pairs) : 0;
}

/// Whether a panel is listed, and sorted as a whole: if all rows are short they are sorted one by one.
bool is_sorted_whole(const plan::Panel& panel) {
  return panel.expand && panel.max_row_pairs > kernels::kShortRowPairs;
}

/// Whether a listed panel is multiplied while it is listed, so that its list needs no memory.
bool is_multiplied_at_once(const plan::Panel& panel, const DeviceOperands& operands) {
  return panel.expand && !is_sorted_whole(panel) && operands.m == kernels::kShortRowSide && !operands.can_be_zero;
}

/// What suffices to list any of the panels and to add its split-K blocks.
struct ListRoom {
  std::uint64_t pairs = 0;         // of a panel whose list lies in memory
  std::uint64_t sorted_pairs = 0;  // of one that is sorted as a whole
  std::uint64_t split_k = 0;       // split-K blocks
  std::size_t work_bytes = 0;

  explicit ListRoom(const MultiplierContext& c) {
    for (const plan::Panel& panel : c.execution.panels) {
      if (!panel.expand) continue;
      if (!is_multiplied_at_once(panel, c.operands)) pairs = std::max(pairs, panel.num_pairs);
      if (is_sorted_whole(panel)) {
        sorted_pairs = std::max(sorted_pairs, panel.num_pairs);
        work_bytes = std::max(work_bytes, kernels::list_pairs_workspace_bytes(panel.num_pairs));
      } else {
        work_bytes = std::max(work_bytes, kernels::short_rows_workspace_bytes(panel.num_pairs, panel.max_row_pairs));
      }
      split_k = std::max(split_k, max_split_k(panel));
    }
  }
};

class RowMultiplier : public Multiplier {
 public:
  explicit RowMultiplier(const MultiplierContext& context)
      : c_(context),
        operands_(context),
        room_(context),
        keys_{DeviceBuffer<std::uint64_t>(c_.memory, room_.sorted_pairs, "pair keys"),
              DeviceBuffer<std::uint64_t>(c_.memory, room_.sorted_pairs, "pair keys")},
        pairs_{DeviceBuffer<kernels::BlockPair>(c_.memory, room_.pairs, "pairs"),
               DeviceBuffer<kernels::BlockPair>(c_.memory, room_.sorted_pairs, "pairs")},
        c_block_keys_(c_.memory, room_.pairs, "C block keys"),
        offsets_(c_.memory, room_.pairs + 1, "pair offsets of C blocks"),
        num_c_blocks_(c_.memory, 1, "count"),
        host_num_c_blocks_(c_.memory.context()),
        split_k_sums_(c_.memory, room_.split_k * c_.operands.m * c_.operands.m, "split-K sums"),
        work_(c_.memory, room_.work_bytes, "pair work space"),
        look_back_(c_.memory, c_.max_c_blocks + 1, "look-back states") {}

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    const DeviceOperands& operands = c_.operands;
    const kernels::RecordOutput out{.to = target.records,
                                    .num_before = target.num_before,
                                    .rows = operands.a.rows.data(),
                                    .look_back = look_back_.data(),
                                    .num_blocks = target.num_blocks,
                                    .largest = target.largest,
                                    .least_largest = target.least_largest,
                                    .most_largest = target.most_largest};
    kernels::CBlocksView c_blocks = all_c_blocks(panel, operands.num_c_columns());
    if (!panel.expand) {
      c_.events.timed(Stage::multiply, c_.stream, [&] {
        kernels::launch_mul_spread(operands_.product(), c_blocks, target.is_known || !operands.can_be_zero, out,
                                   c_.stream.get());
      });
      return;
    }
    if (is_multiplied_at_once(panel, operands)) {
      c_.events.timed(Stage::multiply, c_.stream, [&] {
        kernels::launch_mul_short_rows(
            {.view = operands.expand_view(), .values = pair_values(), .max_element = operands.max_element},
            panel_pairs(panel, c_blocks.column_bits), panel.max_row_pairs,
            {.data = work_.data(), .bytes = work_.size()}, out, c_.stream.get());
      });
      return;
    }
    kernels::PairListView list;
    c_.events.timed(Stage::count, c_.stream, [&] { list = list_pairs(panel, target.is_known, c_blocks); });
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      const bool splits = max_split_k(panel) != 0;
      if (splits) {
        kernels::launch_add_split_k(pair_values(), list, panel.num_pairs, operands.m, split_k_sums_.data(),
                                    c_.stream.get());
      }
      kernels::launch_mul_esc({.values = pair_values(),
                               .list = list,
                               .split_k_sums = splits ? split_k_sums_.data() : nullptr,
                               .m = operands.m,
                               .max_element = operands.max_element,
                               .can_be_zero = operands.can_be_zero},
                              c_blocks, out, c_.stream.get());
    });
  }

 private:
  [[nodiscard]] kernels::PairValues pair_values() const {
    return {.a = c_.operands.a_values.data(), .b = c_.operands.b_values.data()};
  }

  /// Lists a panel's C blocks with their pairs; waits for the stream, unless the panel has been listed before. If it is
  /// the only one that is, the list is still there.
  kernels::PairListView list_pairs(const plan::Panel& panel, bool is_known, kernels::CBlocksView& c_blocks) {
    c_blocks.keys = c_block_keys_.data();
    const auto known = is_known ? lists_.find(panel.first_pair) : lists_.end();
    if (known != lists_.end() && lists_.size() == 1) {
      c_blocks.num_c_blocks = known->second.num_c_blocks;
      return known->second;
    }
    const kernels::BlockPair* const pairs = launch_list(panel, c_blocks.column_bits);
    if (known == lists_.end()) c_.stream.synchronize();
    c_blocks.num_c_blocks = known == lists_.end() ? host_num_c_blocks_.value() : known->second.num_c_blocks;
    const kernels::PairListView list{.num_c_blocks = c_blocks.num_c_blocks, .offsets = offsets_.data(), .pairs = pairs};
    lists_.insert_or_assign(panel.first_pair, list);
    return list;
  }

  /// Puts the listing of a panel on the stream; returns where its pairs will lie.
  const kernels::BlockPair* launch_list(const plan::Panel& panel, std::uint32_t column_bits) {
    kernels::PairListBuffers buffers{.keys = {{keys_[0].data(), keys_[1].data()}},
                                     .pairs = {{pairs_[0].data(), pairs_[1].data()}},
                                     .c_block_keys = c_block_keys_.data(),
                                     .offsets = offsets_.data(),
                                     .num_c_blocks = num_c_blocks_.data(),
                                     .host_num_c_blocks = host_num_c_blocks_.data()};
    const kernels::Workspace work{.data = work_.data(), .bytes = work_.size()};
    const kernels::PanelPairs pairs = panel_pairs(panel, column_bits);
    if (is_sorted_whole(panel)) {
      kernels::launch_list_pairs(c_.operands.expand_view(), pairs, buffers, work, c_.stream.get());
    } else {
      kernels::launch_list_short_rows(c_.operands.expand_view(), pairs, panel.max_row_pairs, buffers, work,
                                      c_.stream.get());
    }
    return buffers.pairs.front();
  }

  MultiplierContext c_;
  RowOperands operands_;
  ListRoom room_;
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;        // [room.sorted_pairs] each
  std::array<DeviceBuffer<kernels::BlockPair>, 2> pairs_;  // [room.pairs], [room.sorted_pairs]
  DeviceBuffer<std::uint64_t> c_block_keys_;               // [room.pairs]
  DeviceBuffer<std::uint32_t> offsets_;                    // [room.pairs + 1]
  DeviceBuffer<std::uint32_t> num_c_blocks_;
  PinnedWord host_num_c_blocks_;
  std::map<std::uint64_t, kernels::PairListView> lists_;  // of panels so far, by their first pair
  DeviceBuffer<std::uint64_t> split_k_sums_;              // [room.split_k, m, m]
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<std::uint64_t> look_back_;  // [max_c_blocks + 1]
};

}  // namespace

std::unique_ptr<Multiplier> make_row_multiplier(const MultiplierContext& context) {
  return std::make_unique<RowMultiplier>(context);
}

}  // namespace spmm::cuda
