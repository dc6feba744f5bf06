// row-rank: the C blocks of a row found first, then their sums by rank in shared memory.
#include <algorithm>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/rows/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

class RankedMultiplier : public Multiplier {
 public:
  explicit RankedMultiplier(const MultiplierContext& context) : Multiplier(context) {
    const bool can_be_zero = c_.operands.can_be_zero;
    const std::uint64_t max_c_blocks = c_.max_c_blocks();
    const std::uint64_t max_pieces = c_.most(max_pieces_of);
    room_.max_splits = kernels::max_rank_splits(max_c_blocks, can_be_zero);
    room_.spans = scratch_.take<kernels::ColumnSpan>(c_.max_rows(), "column spans");
    room_.piece_offsets = scratch_.take<std::uint32_t>(c_.max_rows() + std::uint64_t{1}, "piece offsets");
    room_.pieces = scratch_.take<kernels::RowPiece>(max_pieces, "pieces");
    room_.counts_before = scratch_.take<std::uint64_t>(max_pieces + 1, "counts of pieces");
    room_.windows = scratch_.take<kernels::RankWindow>(kernels::max_rank_windows(max_pieces, max_c_blocks), "windows");
    room_.columns = scratch_.take<std::uint32_t>(max_c_blocks, "columns");
    room_.splits = scratch_.take<std::uint32_t>(room_.max_splits, "splits");
    room_.counters = scratch_.take<unsigned long long>(kernels::kRankCounters, "counters");
    room_.work = scratch_.take_work(kernels::ranked_workspace_bytes(c_.max_rows(), max_pieces, max_c_blocks),
                                    "row-rank work space");
    c_.timed(Stage::count, [&] {  // waits for the stream
      auto* const word = reinterpret_cast<std::uint32_t*>(room_.counters);
      kernels::launch_max_span(c_.operands.product(), word, c_.stream().get());
      room_.max_span = fetch(word, c_.stream());
    });
    if (!can_be_zero) return;
    room_.unpacked = scratch_.take<std::uint32_t>(max_c_blocks * (output_record_bytes(c_.operands.m) / 4), "records");
    room_.non_zero = scratch_.take<std::uint8_t>(max_c_blocks, "flags");
  }

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    kernels::RankScratch scratch = room_;
    scratch.max_pieces = max_pieces_of(panel);
    scratch.max_c_blocks = panel.max_c_blocks();
    scratch.mean_row_pairs = pairs_of(panel) / std::max(1u, panel.num_rows);
    scratch.has_all_columns = panel.num_columns == c_.operands.num_c_columns();
    c_.timed(Stage::multiply, [&] {
      kernels::launch_mul_ranked(c_.operands.product(), c_.all_c_blocks(panel), scratch, c_.output(target),
                                 c_.stream().get());
    });
  }

 private:
  /// Pairs of a panel's rows. A row of which a panel has only some columns counts its pairs with the first of them.
  static std::uint64_t pairs_of(const plan::Panel& panel) {
    return panel.num_rows == 1 ? std::max(panel.max_row_pairs, panel.num_pairs) : panel.num_pairs;
  }
  static std::uint64_t max_pieces_of(const plan::Panel& panel) {
    return kernels::max_row_pieces(panel.num_rows, pairs_of(panel));
  }

  kernels::RankScratch room_;  // for any panel
};

}  // namespace

std::unique_ptr<Multiplier> make_ranked(const MultiplierContext& context) {
  return std::make_unique<RankedMultiplier>(context);
}

}  // namespace spmm::cuda
