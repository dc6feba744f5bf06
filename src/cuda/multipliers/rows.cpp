// B by rows: ESC for panels that are listed, row-spread for the others.
#include "cuda/multipliers/multiplier.hpp"
#include "kernels/pairs/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

/// Places for sums of split-K blocks of a panel; 0 if it can have none.
std::uint64_t max_split_k(const plan::Panel& panel) {
  const bool possible = panel.expand && panel.max_row_pairs > kernels::kSplitKPairs;
  return possible ? kernels::num_split_k_slots(panel.num_pairs) : 0;
}

/// Whether a listed panel is multiplied while it is listed, so that its list needs no memory.
bool is_multiplied_at_once(const plan::Panel& panel, const SortedOperands& operands) {
  return panel.max_row_pairs <= kernels::kShortRowPairs && operands.m == kernels::kShortRowSide &&
         !operands.can_be_zero;
}

class RowMultiplier : public Multiplier {
 public:
  explicit RowMultiplier(const MultiplierContext& context)
      : Multiplier(context),
        lists_(context, [&](const plan::Panel& panel) { return is_multiplied_at_once(panel, c_.operands); }),
        split_k_sums_(
            scratch_.take<std::uint64_t>(c_.most(max_split_k) * c_.operands.m * c_.operands.m, "split-K sums")),
        look_back_(scratch_.take<std::uint64_t>(c_.max_c_blocks() + 1, "look-back states")) {}

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    const SortedOperands& operands = c_.operands;
    const kernels::RecordOutput out = c_.output(target, look_back_);
    const kernels::RowProduct product = operands.product();
    const cudaStream_t stream = c_.stream().get();
    kernels::CBlocksView c_blocks = c_.all_c_blocks(panel);
    if (!panel.expand) {
      c_.timed(Stage::multiply, [&] {
        kernels::launch_mul_spread(product, c_blocks, target.is_known || !operands.can_be_zero, out, stream);
      });
      return;
    }
    if (is_multiplied_at_once(panel, operands)) {
      c_.timed(Stage::multiply, [&] {
        kernels::launch_mul_short_rows(product, panel_pairs(panel, c_blocks.column_bits), panel.max_row_pairs,
                                       lists_.work(), out, stream);
      });
      return;
    }
    kernels::PairListView list;
    c_.timed(Stage::count, [&] { list = lists_.list(panel, target.is_known, c_blocks); });
    c_.timed(Stage::multiply, [&] {
      if (max_split_k(panel) != 0) {
        list.split_k_sums = split_k_sums_;
        kernels::launch_add_split_k(product, list, panel.num_pairs, stream);
      }
      kernels::launch_mul_esc(product, list, c_blocks, out, stream);
    });
  }

 private:
  PairLists lists_;
  std::uint64_t* split_k_sums_;  // [most split-K blocks, m, m]
  std::uint64_t* look_back_;     // [max_c_blocks + 1]
};

}  // namespace

std::unique_ptr<Multiplier> make_rows(const MultiplierContext& context) {
  return std::make_unique<RowMultiplier>(context);
}

}  // namespace spmm::cuda
