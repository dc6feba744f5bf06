// A selection: panels of any kernel, of whose records those are written that keep an element.
#include "cuda/multipliers/multiplier.hpp"
#include "kernels/blocks/selection.hpp"

namespace spmm::cuda {
namespace {

/// The kernel alone: elements at the limit are counted once it is known which are kept.
MultiplierContext without_selection(MultiplierContext context) {
  context.num_saturated = nullptr;
  context.num_dropped = nullptr;
  return context;
}

class SelectedMultiplier : public Multiplier {
 public:
  explicit SelectedMultiplier(const MultiplierContext& context)
      : Multiplier(context),
        kernel_(make_multiplier(without_selection(context))),
        records_(scratch_.take<std::uint32_t>(c_.max_c_blocks() * (output_record_bytes(c_.operands.m) / 4), "records")),
        num_records_(scratch_.take<std::uint32_t>(1, "count")),
        look_back_(scratch_.take<std::uint64_t>(kernels::num_kept_states(c_.max_c_blocks(), c_.operands.m),
                                                "look-back states")) {}

  void multiply(const plan::Panel& panel, PanelTarget& target) override {
    PanelTarget all{.out = {.to = kernels::packed_records(records_, c_.operands.m), .num_blocks = num_records_}};
    kernel_->multiply(panel, all);
    c_.timed(Stage::compact, [&] {
      kernels::launch_write_kept({.records = records_,
                                  .num_records = num_records_,
                                  .max_records = panel.max_c_blocks(),
                                  .rows = c_.operands.a.index.rows.data() + panel.row_begin,
                                  .num_rows = panel.num_rows,
                                  .m = c_.operands.m},
                                 c_.run.selection, c_.num_dropped, c_.output(target, look_back_), c_.stream().get());
    });
  }

  /// Arrays would need room for what is dropped.
  [[nodiscard]] bool writes_arrays() const override { return false; }

 private:
  std::unique_ptr<Multiplier> kernel_;
  std::uint32_t* records_;  // [max_c_blocks, 2 + m * m]
  std::uint32_t* num_records_;
  std::uint64_t* look_back_;
};

}  // namespace

std::unique_ptr<Multiplier> make_selected(const MultiplierContext& context) {
  return std::make_unique<SelectedMultiplier>(context);
}

}  // namespace spmm::cuda
