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
        is_uneven_(c_.most([&](const plan::Panel& panel) { return is_uneven(panel); }) != 0),
        max_tasks_(max_tasks()),
        tasks_(c_.memory, sorts_ ? 0 : max_tasks_ + 1, "tasks"),
        look_back_(c_.memory, max_tasks_ + 1, "look-back states"),
        task_offsets_(c_.memory, sorts_ ? 0 : c_.max_rows() + std::uint64_t{1}, "task offsets"),
        spans_(c_.memory, sorts_ ? 0 : c_.max_rows(), "column spans"),
        splits_(c_.memory, num_splits(), "split offsets"),
        arrived_(c_.memory, is_uneven_ ? c_.max_c_blocks() * (output_record_bytes(c_.operands.m) / 4) : 0, "records"),
        num_arrived_(c_.memory, 1, "count"),
        task_records_(c_.memory, is_uneven_ ? max_tasks_ + 1 : 0, "task records"),
        places_(c_.memory, is_uneven_ ? max_tasks_ + 1 : 0, "places"),
        work_(c_.memory, sorts_ ? 0 : kernels::small_tasks_workspace_bytes(c_.max_rows(), max_tasks_),
              "task work space") {}

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    const DeviceOperands& operands = c_.operands;
    const kernels::RecordOutput out = c_.output(target, look_back_.data());
    const kernels::SmallBlocksProduct product{.a = operands.a_view(),
                                              .b = operands.b_view(),
                                              .b_row_index = operands.b_row_index.data(),
                                              .pair_offsets = operands.pair_offsets.data(),
                                              .m = operands.m,
                                              .nb = operands.num_c_columns(),
                                              .max_element = operands.max_element,
                                              .can_be_zero = operands.can_be_zero};
    const kernels::CBlocksView c_blocks = c_.all_c_blocks(panel);
    if (sorts_) {
      return c_.timed(Stage::multiply, [&] {
        kernels::launch_mul_sorted_rows(product, c_blocks, max_row_pairs_, operands.max_row_blocks, out,
                                        c_.stream.get());
      });
    }
    const kernels::SmallBlocksScratch scratch{.max_tasks = max_tasks_of(panel),
                                              .tasks = tasks_.data(),
                                              .task_offsets = task_offsets_.data(),
                                              .spans = spans_.data(),
                                              .splits = splits_.size() == 0 ? nullptr : splits_.data(),
                                              .arrivals = is_uneven(panel) ? arrivals() : kernels::SmallArrivals{},
                                              .work = {.data = work_.data(), .bytes = work_.size()}};
    c_.timed(Stage::multiply, [&] {
      kernels::launch_mul_small_blocks(product, c_blocks, panel.max_row_pairs, scratch, out, c_.stream.get());
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
    return sorts_ || shape.dense_chunks == 1 || count * sizeof(std::uint32_t) > kMostBytes ? 0 : count;
  }

  /// Whether a row of the panel takes so much longer than others that its tasks should not wait for each other.
  [[nodiscard]] bool is_uneven(const plan::Panel& panel) const {
    const std::uint64_t mean = panel.num_pairs / panel.num_rows + 1;
    const std::uint32_t hashed =
        kernels::small_shape(c_.operands.m, c_.operands.num_c_columns(), kernels::small_region_bytes()).hash_slots;
    return panel.max_row_pairs > std::max<std::uint64_t>(hashed, kernels::kSmallEvenRows * mean);
  }

  [[nodiscard]] kernels::SmallArrivals arrivals() const {
    return {.records = arrived_.data(),
            .num_records = num_arrived_.data(),
            .tasks = task_records_.data(),
            .places = places_.data()};
  }

  std::uint64_t max_row_pairs_;               // of a panel
  bool sorts_;                                // all rows; then tasks, their offsets, spans and work space are empty
  bool is_uneven_;                            // of some panel
  std::uint64_t max_tasks_;                   // of a panel
  DeviceBuffer<kernels::SmallTask> tasks_;    // [max_tasks + 1]
  DeviceBuffer<std::uint64_t> look_back_;     // [max_tasks + 1]
  DeviceBuffer<std::uint32_t> task_offsets_;  // [rows of a panel + 1]
  DeviceBuffer<kernels::ColumnSpan> spans_;   // [rows of a panel]
  DeviceBuffer<std::uint32_t> splits_;        // [rows of B, dense chunks + 1], or none
  DeviceBuffer<std::uint32_t> arrived_;       // [max_c_blocks, 2 + m * m], if a panel is uneven, like the next ones
  DeviceBuffer<std::uint32_t> num_arrived_;   // [1]
  DeviceBuffer<kernels::TaskRecords> task_records_;  // [max_tasks + 1]
  DeviceBuffer<std::uint32_t> places_;               // [max_tasks + 1]
  DeviceBuffer<std::byte> work_;
};

}  // namespace

std::unique_ptr<Multiplier> make_small(const MultiplierContext& context) {
  return std::make_unique<SmallMultiplier>(context);
}

}  // namespace spmm::cuda
