// B by rows: ESC for panels that are listed, the Gustavson kernel for the others.
#include <algorithm>
#include <array>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/gustavson/launch.hpp"
#include "kernels/pairs/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

/// split-K blocks of a panel at most; 0 if it is not listed.
std::uint64_t max_split_k(const plan::Panel& panel) {
  const bool possible = panel.expand && panel.max_row_pairs > kernels::kSplitKPairs;
  return possible ? panel.num_pairs / kernels::kSplitKPairs : 0;
}

std::uint64_t max_split_k(const std::vector<plan::Panel>& panels) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : panels) most = std::max(most, max_split_k(panel));
  return most;
}

/// Whether a panel is listed, and sorted as a whole: if all rows are short they are sorted one by one.
bool is_sorted_whole(const plan::Panel& panel) {
  return panel.expand && panel.max_row_pairs > kernels::kShortRowPairs;
}

/// Whether a listed panel is multiplied while it is listed, so that its list needs no memory.
bool is_multiplied_at_once(const plan::Panel& panel, const DeviceOperands& operands, bool can_be_zero) {
  return panel.expand && !is_sorted_whole(panel) && operands.m == kernels::kShortRowSide && !can_be_zero;
}

std::uint64_t max_pairs_sorted_whole(const std::vector<plan::Panel>& panels) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : panels) {
    if (is_sorted_whole(panel)) most = std::max(most, panel.num_pairs);
  }
  return most;
}

/// Largest number of pairs of a panel whose list lies in memory; 0 without one.
std::uint64_t max_pairs_in_memory(const MultiplierContext& c, bool can_be_zero) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : c.execution.panels) {
    if (panel.expand && !is_multiplied_at_once(panel, c.operands, can_be_zero)) most = std::max(most, panel.num_pairs);
  }
  return most;
}

/// Scratch bytes that suffice to list any of the panels and to find its split-K blocks.
std::size_t list_workspace_bytes(const std::vector<plan::Panel>& panels) {
  const std::uint64_t max_sorted = max_pairs_sorted_whole(panels);
  std::size_t most = max_sorted == 0 ? 0 : kernels::list_pairs_workspace_bytes(max_sorted);
  for (const plan::Panel& panel : panels) {
    if (max_split_k(panel) != 0) most = std::max(most, kernels::find_split_k_workspace_bytes(panel.num_pairs));
    if (!panel.expand || is_sorted_whole(panel)) continue;
    most = std::max(most, kernels::list_short_rows_workspace_bytes(panel.num_pairs, panel.max_row_pairs));
    most = std::max(most, kernels::mul_short_rows_workspace_bytes(panel.num_pairs, panel.max_row_pairs));
  }
  return most;
}

/// Whether listed C blocks can be zero; if that is not known yet, waits for the stream.
bool find_zeros(const MultiplierContext& c) {
  if (max_listed_pairs(c.execution.panels) == 0) return true;
  const DeviceOperands& operands = c.operands;
  if (operands.can_be_zero) return *operands.can_be_zero;
  const std::uint64_t elements = std::uint64_t{operands.side} * operands.side;
  const DeviceBuffer<std::uint32_t> found(c.memory, 1, "flag");
  bool any = true;
  c.events.timed(Stage::count, c.stream, [&] {
    kernels::launch_find_zeros({.values = operands.a_values.data(), .count = operands.a_values.size() / elements},
                               {.values = operands.b_values.data(), .count = operands.b_values.size() / elements},
                               operands.shape(), found.data(), c.stream.get());
    any = fetch(found.data(), c.stream) != 0;
  });
  return any;
}

class RowMultiplier : public Multiplier {
 public:
  explicit RowMultiplier(const MultiplierContext& context)
      : c_(context),
        can_be_zero_(find_zeros(context)),
        max_pairs_(max_pairs_in_memory(context, can_be_zero_)),
        max_sorted_(max_pairs_sorted_whole(context.execution.panels)),
        max_split_k_(max_split_k(context.execution.panels)),
        keys_{DeviceBuffer<std::uint64_t>(c_.memory, max_sorted_, "pair keys"),
              DeviceBuffer<std::uint64_t>(c_.memory, max_sorted_, "pair keys")},
        pairs_{DeviceBuffer<kernels::BlockPair>(c_.memory, max_pairs_, "pairs"),
               DeviceBuffer<kernels::BlockPair>(c_.memory, max_sorted_, "pairs")},
        c_block_keys_(c_.memory, max_pairs_, "C block keys"),
        offsets_(c_.memory, max_pairs_ + 1, "pair offsets of C blocks"),
        num_c_blocks_(c_.memory, 1, "count"),
        host_num_c_blocks_(c_.memory.context()),
        split_k_blocks_(c_.memory, max_split_k_, "split-K blocks"),
        num_split_k_(c_.memory, max_split_k_ == 0 ? 0 : 1, "count"),
        split_k_sums_(c_.memory, max_split_k_ * c_.operands.m * c_.operands.m, "split-K sums"),
        work_(c_.memory, list_workspace_bytes(context.execution.panels), "pair work space"),
        zeros_(c_.memory, looks_for_zeros(context) ? 1 : 0, "flag"),
        look_back_(c_.memory, c_.max_c_blocks + 1, "look-back states") {
    look_for_zeros();
  }

  void multiply(const plan::Panel& panel, PackedPanel& target) override {
    const DeviceOperands& operands = c_.operands;
    const kernels::RecordOutput out{.records = reinterpret_cast<std::uint32_t*>(target.records.data()),
                                    .rows = operands.a.rows.data(),
                                    .look_back = look_back_.data(),
                                    .num_blocks = target.num_blocks.data()};
    kernels::CBlocksView c_blocks = all_c_blocks(panel, operands.num_c_columns());
    if (!panel.expand) {
      c_.events.timed(Stage::multiply, c_.stream, [&] {
        kernels::launch_mul_gustavson({.a = operands.a_view(),
                                       .b = operands.b_view(),
                                       .b_row_index = operands.b_row_index.data(),
                                       .num_a_blocks = static_cast<std::uint32_t>(operands.a.columns.size()),
                                       .num_b_blocks = static_cast<std::uint32_t>(operands.b.columns.size()),
                                       .m = operands.m,
                                       .max_element = operands.max_element},
                                      c_blocks, zero_products(), out, c_.stream.get());
      });
      return;
    }
    if (is_multiplied_at_once(panel, operands, can_be_zero_)) {
      c_.events.timed(Stage::multiply, c_.stream, [&] {
        kernels::launch_mul_short_rows(
            {.view = operands.expand_view(), .values = pair_values(), .max_element = operands.max_element},
            panel_pairs(panel, c_blocks.column_bits), panel.max_row_pairs,
            {.data = work_.data(), .bytes = work_.size()}, out, c_.stream.get());
      });
      return;
    }
    kernels::PairListView list;
    c_.events.timed(Stage::count, c_.stream, [&] { list = list_pairs(panel, c_blocks); });
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      const kernels::SplitKView split_k = add_split_k(panel, list);
      kernels::launch_mul_esc({.values = pair_values(),
                               .list = list,
                               .split_k = split_k,
                               .m = operands.m,
                               .max_element = operands.max_element,
                               .can_be_zero = can_be_zero_},
                              c_blocks, out, c_.stream.get());
    });
  }

 private:
  /// Whether the Gustavson kernel wants to know of zeros what parsing has not told.
  static bool looks_for_zeros(const MultiplierContext& c) {
    const auto& panels = c.execution.panels;
    const bool visits =
        std::any_of(panels.begin(), panels.end(), [](const plan::Panel& panel) { return !panel.expand; });
    return visits && !c.operands.can_be_zero;
  }
  /// Lets the Gustavson kernel know whether C blocks that it visits can be zero; waits for nothing.
  void look_for_zeros() {
    if (zeros_.size() == 0) return;
    const DeviceOperands& operands = c_.operands;
    const std::uint64_t elements = std::uint64_t{operands.side} * operands.side;
    c_.events.timed(Stage::count, c_.stream, [&] {
      kernels::launch_find_zeros({.values = operands.a_values.data(), .count = operands.a_values.size() / elements},
                                 {.values = operands.b_values.data(), .count = operands.b_values.size() / elements},
                                 operands.shape(), zeros_.data(), c_.stream.get());
    });
  }
  [[nodiscard]] kernels::ZeroProducts zero_products() const {
    return {.are_none = c_.operands.can_be_zero == false, .found = zeros_.data()};
  }

  [[nodiscard]] kernels::PairValues pair_values() const {
    return {.a = c_.operands.a_values.data(), .b = c_.operands.b_values.data()};
  }

  /// Lists a panel's C blocks with their pairs; waits for the stream.
  kernels::PairListView list_pairs(const plan::Panel& panel, kernels::CBlocksView& c_blocks) {
    kernels::PairListBuffers buffers{.keys = {{keys_[0].data(), keys_[1].data()}},
                                     .pairs = {{pairs_[0].data(), pairs_[1].data()}},
                                     .c_block_keys = c_block_keys_.data(),
                                     .offsets = offsets_.data(),
                                     .num_c_blocks = num_c_blocks_.data(),
                                     .host_num_c_blocks = host_num_c_blocks_.data()};
    const kernels::Workspace work{.data = work_.data(), .bytes = work_.size()};
    const kernels::PanelPairs pairs = panel_pairs(panel, c_blocks.column_bits);
    if (is_sorted_whole(panel)) {
      kernels::launch_list_pairs(c_.operands.expand_view(), pairs, buffers, work, c_.stream.get());
    } else {
      kernels::launch_list_short_rows(c_.operands.expand_view(), pairs, panel.max_row_pairs, buffers, work,
                                      c_.stream.get());
    }
    c_.stream.synchronize();
    c_blocks.num_c_blocks = host_num_c_blocks_.value();
    c_blocks.keys = c_block_keys_.data();
    return {.num_c_blocks = c_blocks.num_c_blocks, .offsets = offsets_.data(), .pairs = buffers.pairs.front()};
  }

  /// Finds and adds up the split-K blocks of a panel; an empty view if there can be none.
  kernels::SplitKView add_split_k(const plan::Panel& panel, const kernels::PairListView& list) {
    if (max_split_k(panel) == 0) return {};
    const kernels::SplitKView found{
        .c_blocks = split_k_blocks_.data(), .count = num_split_k_.data(), .sums = split_k_sums_.data()};
    kernels::launch_find_split_k(list, found, {.data = work_.data(), .bytes = work_.size()}, c_.stream.get());
    kernels::launch_add_split_k(pair_values(), list, panel.num_pairs, c_.operands.m, found, c_.stream.get());
    return found;
  }

  MultiplierContext c_;
  bool can_be_zero_;                                       // C blocks of listed panels
  std::uint64_t max_pairs_;                                // of a panel whose list lies in memory
  std::uint64_t max_sorted_;                               // of one that is sorted as a whole
  std::uint64_t max_split_k_;                              // split-K blocks of a panel at most
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;        // [max_sorted] each
  std::array<DeviceBuffer<kernels::BlockPair>, 2> pairs_;  // [max_pairs], [max_sorted]
  DeviceBuffer<std::uint64_t> c_block_keys_;               // [max_pairs]
  DeviceBuffer<std::uint32_t> offsets_;                    // [max_pairs + 1]
  DeviceBuffer<std::uint32_t> num_c_blocks_;
  PinnedWord host_num_c_blocks_;
  DeviceBuffer<std::uint32_t> split_k_blocks_;  // [max_split_k]
  DeviceBuffer<std::uint32_t> num_split_k_;
  DeviceBuffer<std::uint64_t> split_k_sums_;  // [max_split_k, m, m]
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<std::uint32_t> zeros_;      // [1], as find_zeros writes it, if that is not known before
  DeviceBuffer<std::uint64_t> look_back_;  // [max_c_blocks + 1]
};

}  // namespace

std::unique_ptr<Multiplier> make_row_multiplier(const MultiplierContext& context) {
  return std::make_unique<RowMultiplier>(context);
}

}  // namespace spmm::cuda
