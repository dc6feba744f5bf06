// row-rank: the C blocks of a row found first, then their sums by rank in shared memory.
#include <algorithm>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/rows/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

class RankedMultiplier : public Multiplier {
 public:
  explicit RankedMultiplier(const MultiplierContext& context)
      : Multiplier(context),
        operands_(context),
        max_c_blocks_(c_.max_c_blocks()),
        max_pieces_(c_.most(max_pieces_of)),
        spans_(c_.memory, c_.max_rows(), "column spans"),
        piece_offsets_(c_.memory, c_.max_rows() + std::uint64_t{1}, "piece offsets"),
        pieces_(c_.memory, max_pieces_, "pieces"),
        counts_before_(c_.memory, max_pieces_ + 1, "counts of pieces"),
        windows_(c_.memory, kernels::max_rank_windows(max_pieces_, max_c_blocks_), "windows"),
        columns_(c_.memory, max_c_blocks_, "columns"),
        counters_(c_.memory, kernels::kRankCounters, "counters"),
        work_(c_.memory, kernels::ranked_workspace_bytes(c_.max_rows(), max_pieces_, max_c_blocks_),
              "row-rank work space") {
    max_span_ = find_max_span();
    const bool can_be_zero = c_.operands.can_be_zero;
    splits_ = DeviceBuffer<std::uint32_t>(c_.memory, kernels::max_rank_splits(max_c_blocks_, can_be_zero), "splits");
    if (!can_be_zero) return;
    unpacked_ =
        DeviceBuffer<std::uint32_t>(c_.memory, max_c_blocks_ * (output_record_bytes(c_.operands.m) / 4), "records");
    non_zero_ = DeviceBuffer<std::uint8_t>(c_.memory, max_c_blocks_, "flags");
  }

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    const kernels::RankScratch scratch{.max_pieces = max_pieces_of(panel),
                                       .max_c_blocks = panel.max_c_blocks(),
                                       .max_splits = splits_.size(),
                                       .max_span = max_span_,
                                       .mean_row_pairs = pairs_of(panel) / std::max(1u, panel.num_rows),
                                       .spans = spans_.data(),
                                       .piece_offsets = piece_offsets_.data(),
                                       .pieces = pieces_.data(),
                                       .counts_before = counts_before_.data(),
                                       .windows = windows_.data(),
                                       .columns = columns_.data(),
                                       .splits = splits_.data(),
                                       .counters = counters_.data(),
                                       .unpacked = unpacked_.data(),
                                       .non_zero = non_zero_.data(),
                                       .work = {.data = work_.data(), .bytes = work_.size()}};
    c_.timed(Stage::multiply, [&] {
      kernels::launch_mul_ranked(operands_.product(), c_.all_c_blocks(panel), scratch, c_.output(target),
                                 c_.stream.get());
    });
  }

 private:
  /// Finds the widest row; waits for the stream.
  std::uint32_t find_max_span() {
    auto* const word = reinterpret_cast<std::uint32_t*>(counters_.data());
    std::uint32_t span = 0;
    c_.timed(Stage::count, [&] {
      kernels::launch_max_span(operands_.product(), word, c_.stream.get());
      span = fetch(word, c_.stream);
    });
    return span;
  }

  /// Pairs of a panel's rows. A row of which a panel has only some columns counts its pairs with the first of them.
  static std::uint64_t pairs_of(const plan::Panel& panel) {
    return panel.num_rows == 1 ? std::max(panel.max_row_pairs, panel.num_pairs) : panel.num_pairs;
  }
  static std::uint64_t max_pieces_of(const plan::Panel& panel) {
    return kernels::max_row_pieces(panel.num_rows, pairs_of(panel));
  }

  RowOperands operands_;
  std::uint64_t max_c_blocks_;                 // of a panel
  std::uint64_t max_pieces_;                   // of a panel
  std::uint32_t max_span_ = 0;                 // columns of a row
  DeviceBuffer<kernels::ColumnSpan> spans_;    // [rows of a panel]
  DeviceBuffer<std::uint32_t> piece_offsets_;  // [rows of a panel + 1]
  DeviceBuffer<kernels::RowPiece> pieces_;     // [max_pieces]
  DeviceBuffer<std::uint64_t> counts_before_;  // [max_pieces + 1]
  DeviceBuffer<kernels::RankWindow> windows_;  // [max_rank_windows]
  DeviceBuffer<std::uint32_t> columns_;        // [max_c_blocks]
  DeviceBuffer<unsigned long long> counters_;  // [kRankCounters]
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<std::uint32_t> splits_;    // [max_rank_splits]
  DeviceBuffer<std::uint32_t> unpacked_;  // [max_c_blocks, 2 + m * m], if C blocks can be zero, like the next one
  DeviceBuffer<std::uint8_t> non_zero_;   // [max_c_blocks]
};

}  // namespace

std::unique_ptr<Multiplier> make_ranked(const MultiplierContext& context) {
  return std::make_unique<RankedMultiplier>(context);
}

}  // namespace spmm::cuda
