// small-blocks: rows of C with sums in shared memory, m = 1 to 4.
#include <algorithm>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

class SmallMultiplier : public Multiplier {
 public:
  explicit SmallMultiplier(const MultiplierContext& context)
      : c_(context),
        sorts_(sorts_rows()),
        max_tasks_(sorts_ ? max_rows() / kernels::sorted_rows_at_once(max_row_pairs(), c_.operands.num_c_columns()) +
                                std::uint64_t{1}
                          : max_tasks()),
        tasks_(c_.memory, sorts_ ? 0 : max_tasks_ + 1, "tasks"),
        look_back_(c_.memory, max_tasks_ + 1, "look-back states"),
        task_offsets_(c_.memory, sorts_ ? 0 : max_rows() + std::uint64_t{1}, "task offsets"),
        spans_(c_.memory, sorts_ ? 0 : max_rows(), "column spans"),
        arrived_(c_.memory, any_uneven() ? c_.max_c_blocks * (output_record_bytes(c_.operands.m) / 4) : 0, "records"),
        num_arrived_(c_.memory, 1, "count"),
        task_records_(c_.memory, any_uneven() ? max_tasks_ + 1 : 0, "task records"),
        places_(c_.memory, any_uneven() ? max_tasks_ + 1 : 0, "places"),
        work_(c_.memory, sorts_ ? 0 : kernels::small_tasks_workspace_bytes(max_rows(), max_tasks_), "task work space"),
        can_be_zero_(c_.memory, 1, "flag"),
        split_offsets_(c_.memory, num_split_offsets(), "split offsets") {
    if (sorts_) return;
    const DeviceOperands& operands = c_.operands;
    const std::uint64_t elements = std::uint64_t{operands.m} * operands.m;
    c_.events.timed(Stage::count, c_.stream, [&] {
      kernels::launch_find_zeros({.values = operands.a_values.data(), .count = operands.a_values.size() / elements},
                                 {.values = operands.b_values.data(), .count = operands.b_values.size() / elements},
                                 operands.shape(), can_be_zero_.data(), c_.stream.get());
      if (split_offsets_.size() == 0) return;
      const kernels::SmallShape shape = whole_shape();
      kernels::launch_small_split_offsets(operands.b.view(), shape.dense_columns, shape.dense_chunks,
                                          split_offsets_.data(), c_.stream.get());
    });
  }

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    const DeviceOperands& operands = c_.operands;
    const kernels::RecordOutput out{.to = target.records,
                                    .num_before = target.num_before,
                                    .rows = operands.a.rows.data(),
                                    .look_back = look_back_.data(),
                                    .num_blocks = target.num_blocks};
    const kernels::SmallBlocksProduct product{.a = operands.a_view(),
                                              .b = operands.b_view(),
                                              .b_row_index = operands.b_row_index.data(),
                                              .pair_offsets = operands.pair_offsets.data(),
                                              .m = operands.m,
                                              .nb = operands.num_c_columns(),
                                              .max_element = operands.max_element,
                                              .can_be_zero = can_be_zero_.data(),
                                              .split_offsets = split_offsets_.data()};
    const kernels::CBlocksView c_blocks = all_c_blocks(panel, operands.num_c_columns());
    if (sorts_) {
      return c_.events.timed(Stage::multiply, c_.stream, [&] {
        kernels::launch_mul_sorted_rows(
            product, c_blocks, {.pairs = max_row_pairs(), .blocks = operands.max_row_blocks}, out, c_.stream.get());
      });
    }
    const kernels::SmallBlocksScratch scratch{.max_tasks = max_tasks_of(panel),
                                              .tasks = tasks_.data(),
                                              .task_offsets = task_offsets_.data(),
                                              .spans = spans_.data(),
                                              .arrivals = is_uneven(panel) ? arrivals() : kernels::SmallArrivals{},
                                              .work = {.data = work_.data(), .bytes = work_.size()}};
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      kernels::launch_mul_small_blocks(product, c_blocks, panel.max_row_pairs, scratch, out, c_.stream.get());
    });
  }

  /// Tasks that wait for none copy their records once more anyway.
  [[nodiscard]] bool writes_arrays() const override { return !any_uneven(); }

 private:
  [[nodiscard]] std::uint64_t max_row_pairs() const {
    std::uint64_t most = 0;
    for (const plan::Panel& panel : c_.execution.panels) most = std::max(most, panel.max_row_pairs);
    return most;
  }

  [[nodiscard]] bool sorts_rows() const {
    const std::uint32_t num_columns = c_.operands.num_c_columns();
    const auto& panels = c_.execution.panels;
    return kernels::sorts_rows(c_.operands.m, max_row_pairs(), num_columns) &&
           std::all_of(panels.begin(), panels.end(),
                       [&](const plan::Panel& panel) { return panel.num_columns == num_columns; });
  }

  /// Of all columns.
  [[nodiscard]] kernels::SmallShape whole_shape() const {
    return kernels::small_shape(c_.operands.m, c_.operands.num_c_columns(), kernels::small_cta());
  }

  [[nodiscard]] std::uint64_t max_tasks_of(const plan::Panel& panel) const {
    const kernels::SmallCta cta = kernels::small_cta();
    const kernels::SmallShape shape = kernels::small_shape(c_.operands.m, panel.num_columns, cta);
    const kernels::SmallTables tables =
        kernels::small_tables(c_.operands.m, cta, shape.hash_slots, panel.max_row_pairs);
    kernels::SmallShape tabled = shape;
    tabled.hash_slots = tables.slots;
    // A row of which this panel has only some columns counts its pairs with the first of them.
    const std::uint64_t num_pairs = panel.num_rows == 1 ? panel.max_row_pairs : panel.num_pairs;
    return kernels::max_small_tasks(tabled, panel.num_rows, num_pairs, tables.rows_per_warp * cta.warps);
  }

  /// Whether a row of the panel takes so much longer than others that its tasks should not wait for each other.
  [[nodiscard]] bool is_uneven(const plan::Panel& panel) const {
    const std::uint64_t mean = panel.num_pairs / panel.num_rows + 1;
    const std::uint32_t hashed =
        kernels::small_shape(c_.operands.m, c_.operands.num_c_columns(), kernels::small_cta()).hash_slots;
    return panel.max_row_pairs > std::max<std::uint64_t>(hashed, kernels::kSmallEvenRows * mean);
  }

  [[nodiscard]] bool any_uneven() const {
    return std::any_of(c_.execution.panels.begin(), c_.execution.panels.end(),
                       [&](const plan::Panel& panel) { return is_uneven(panel); });
  }

  [[nodiscard]] kernels::SmallArrivals arrivals() const {
    return {.records = arrived_.data(),
            .num_records = num_arrived_.data(),
            .tasks = task_records_.data(),
            .places = places_.data()};
  }

  [[nodiscard]] std::uint64_t max_tasks() const {
    std::uint64_t most = 0;
    for (const plan::Panel& panel : c_.execution.panels) most = std::max(most, max_tasks_of(panel));
    return most;
  }

  [[nodiscard]] std::uint32_t max_rows() const {
    std::uint32_t most = 0;
    for (const plan::Panel& panel : c_.execution.panels) most = std::max(most, panel.num_rows);
    return most;
  }

  /// 0 if no row is dense, if a row has one chunk, or if they would be too many.
  [[nodiscard]] std::uint64_t num_split_offsets() const {
    const kernels::SmallShape shape = whole_shape();
    const std::uint64_t count = std::uint64_t{c_.operands.b.num_rows} * (shape.dense_chunks + 1);
    const bool wanted = shape.dense_chunks > 1 && max_row_pairs() > std::max(shape.rank_pairs, shape.hash_slots);
    return wanted && count * sizeof(std::uint32_t) <= kernels::kSmallSplitBytes ? count : 0;
  }

  MultiplierContext c_;
  bool sorts_;                                // all rows; then tasks, their offsets, spans and work space are empty
  std::uint64_t max_tasks_;                   // of a panel
  DeviceBuffer<std::uint64_t> tasks_;         // [max_tasks + 1]
  DeviceBuffer<std::uint64_t> look_back_;     // [max_tasks + 1]
  DeviceBuffer<std::uint32_t> task_offsets_;  // [rows of a panel + 1]
  DeviceBuffer<std::uint64_t> spans_;         // [rows of a panel]
  DeviceBuffer<std::uint32_t> arrived_;       // [max_c_blocks, 2 + m * m], if a panel is uneven, like the next ones
  DeviceBuffer<std::uint32_t> num_arrived_;   // [1]
  DeviceBuffer<kernels::TaskRecords> task_records_;  // [max_tasks + 1]
  DeviceBuffer<std::uint32_t> places_;               // [max_tasks + 1]
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<std::uint32_t> can_be_zero_;    // [1]
  DeviceBuffer<std::uint32_t> split_offsets_;  // [rows of B, dense chunks + 1], or empty
};

}  // namespace

std::unique_ptr<Multiplier> make_small_multiplier(const MultiplierContext& context) {
  return std::make_unique<SmallMultiplier>(context);
}

}  // namespace spmm::cuda
