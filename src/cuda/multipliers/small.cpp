// small-blocks: rows of C with sums in shared memory, m = 1 to 4.
#include <algorithm>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

class SmallMultiplier : public Multiplier {
 public:
  explicit SmallMultiplier(const MultiplierContext& context)
      : Multiplier(context),
        max_row_pairs_(c_.most([](const plan::Panel& panel) { return panel.max_row_pairs; })),
        sorts_(sorts_rows()),
        is_uneven_(c_.most([&](const plan::Panel& panel) { return is_uneven(panel); }) != 0) {
    const std::uint64_t max_tasks = this->max_tasks();
    look_back_ = scratch_.take<std::uint64_t>(max_tasks + 1, "look-back states");
    if (sorts_) return;
    room_.tasks = scratch_.take<kernels::SmallTask>(max_tasks + 1, "tasks");
    room_.task_offsets = scratch_.take<std::uint32_t>(c_.max_rows() + std::uint64_t{1}, "task offsets");
    room_.spans = scratch_.take<kernels::ColumnSpan>(c_.max_rows(), "column spans");
    room_.splits = scratch_.take<std::uint32_t>(num_splits(), "split offsets");
    room_.work = scratch_.take_work(kernels::small_tasks_workspace_bytes(c_.max_rows(), max_tasks), "task work space");
    if (!is_uneven_) return;
    room_.arrivals = {.records = scratch_.take<std::uint32_t>(
                          c_.max_c_blocks() * (output_record_bytes(c_.operands.m) / 4), "records"),
                      .num_records = scratch_.take<std::uint32_t>(1, "count"),
                      .tasks = scratch_.take<kernels::TaskRecords>(max_tasks + 1, "task records"),
                      .places = scratch_.take<std::uint32_t>(max_tasks + 1, "places")};
  }

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    const kernels::RecordOutput out = c_.output(target, look_back_);
    const kernels::RowProduct product = c_.operands.product();
    const kernels::CBlocksView c_blocks = c_.all_c_blocks(panel);
    if (sorts_) {
      return c_.timed(Stage::multiply, [&] {
        kernels::launch_mul_sorted_rows(product, c_blocks, max_row_pairs_, c_.operands.max_row_blocks, out,
                                        c_.stream().get());
      });
    }
    kernels::SmallBlocksScratch scratch = room_;
    scratch.max_tasks = max_tasks_of(panel);
    if (!is_uneven(panel)) scratch.arrivals = {};
    c_.timed(Stage::multiply, [&] {
      kernels::launch_mul_small_blocks(product, c_blocks, panel.max_row_pairs, scratch, out, c_.stream().get());
    });
  }

  /// Tasks that wait for none copy their records once more anyway.
  [[nodiscard]] bool writes_arrays() const override { return !is_uneven_; }

 private:
  [[nodiscard]] std::uint64_t max_tasks() const {
    if (!sorts_) return c_.most([&](const plan::Panel& panel) { return max_tasks_of(panel); });
    return c_.max_rows() / kernels::sorted_rows_at_once(max_row_pairs_, c_.operands.num_c_columns()) + 1;
  }

  [[nodiscard]] bool sorts_rows() const {
    const std::uint32_t num_columns = c_.operands.num_c_columns();
    const auto& panels = c_.execution.panels;
    return kernels::sorts_rows(c_.operands.m, max_row_pairs_, num_columns) &&
           std::all_of(panels.begin(), panels.end(),
                       [&](const plan::Panel& panel) { return panel.num_columns == num_columns; });
  }

  [[nodiscard]] std::uint64_t max_tasks_of(const plan::Panel& panel) const {
    const kernels::SmallShape shape =
        kernels::small_shape(c_.operands.m, panel.num_columns, kernels::small_region_bytes(), panel.max_row_pairs);
    // A row of which this panel has only some columns counts its pairs with the first of them.
    const std::uint64_t num_pairs = panel.num_rows == 1 ? panel.max_row_pairs : panel.num_pairs;
    return kernels::max_small_tasks(shape, panel.num_rows, num_pairs);
  }

  /// Where dense chunks begin in the rows of B: none if these are so many that the table would be large.
  [[nodiscard]] std::uint64_t num_splits() const {
    constexpr std::uint64_t kMostBytes = 32u << 20;
    const kernels::SmallShape shape =
        kernels::small_shape(c_.operands.m, c_.operands.num_c_columns(), kernels::small_region_bytes());
    const std::uint64_t count = std::uint64_t{c_.operands.b_view().index.num_rows} * (shape.dense_chunks + 1);
    return shape.dense_chunks == 1 || count * sizeof(std::uint32_t) > kMostBytes ? 0 : count;
  }

  /// Whether a row of the panel takes so much longer than others that its tasks should not wait for each other.
  [[nodiscard]] bool is_uneven(const plan::Panel& panel) const {
    const std::uint64_t mean = panel.num_pairs / panel.num_rows + 1;
    const std::uint32_t hashed =
        kernels::small_shape(c_.operands.m, c_.operands.num_c_columns(), kernels::small_region_bytes()).hash_slots;
    return panel.max_row_pairs > std::max<std::uint64_t>(hashed, kernels::kSmallEvenRows * mean);
  }

  std::uint64_t max_row_pairs_;       // of a panel
  bool sorts_;                        // all rows
  bool is_uneven_;                    // of some panel
  std::uint64_t* look_back_;          // [max_tasks + 1]
  kernels::SmallBlocksScratch room_;  // for any panel; none if all rows are sorted
};

}  // namespace

std::unique_ptr<Multiplier> make_small(const MultiplierContext& context) {
  return std::make_unique<SmallMultiplier>(context);
}

}  // namespace spmm::cuda
