// Dense u16 copies of A's rows per panel and of B, whole or by groups of block columns, and register tiles between
// them: the dense kernel for every device.
#include <algorithm>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/dense/launch.hpp"
#include "plan/memory/dense_plan.hpp"

namespace spmm::cuda {
namespace {

class DenseTiledMultiplier : public CBlockFiller {
 public:
  explicit DenseTiledMultiplier(const MultiplierContext& context)
      : CBlockFiller(context),
        side_(plan::padded_elements(std::uint64_t{context.operands.nb} * context.operands.m)),
        group_(context.execution.dense_columns) {
    const DeviceOperands& operands = c_.operands;
    std::uint64_t max_rows = 0;
    for (const plan::Panel& panel : c_.execution.panels) max_rows = std::max<std::uint64_t>(max_rows, panel.num_rows);
    constexpr std::uint64_t kBytes = sizeof(std::uint16_t);
    a_ = {c_.memory, plan::dense_a_bytes(operands.nb, max_rows, operands.m) / kBytes, "dense rows of A"};
    b_ = {c_.memory, plan::dense_b_bytes(operands.nb, group_, operands.m) / kBytes, "dense columns of B"};
  }

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    const DeviceOperands& operands = c_.operands;
    const kernels::DenseView a{
        .data = a_.data(), .num_rows = panel.num_rows * operands.m, .stride = static_cast<std::uint32_t>(side_)};
    kernels::DenseTarget target{
        .num_rows = a.num_rows, .m = operands.m, .num_block_columns = panel.num_columns, .results = results};
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, std::uint64_t{panel.num_rows} * panel.num_columns, c_.stream.get()),
            "clear flags");
      kernels::launch_expand_dense_a(operands.a_view(), panel.row_begin, panel.num_rows, operands.m, a,
                                     c_.stream.get());
      for (std::uint32_t first = 0; first < panel.num_columns; first += std::min(group_, panel.num_columns - first)) {
        const std::uint32_t count = std::min(group_, panel.num_columns - first);
        const kernels::DenseView b = expand_b(panel.column_begin + first, count);
        target.first_block_column = first;
        target.num_columns = count * operands.m;
        kernels::launch_mul_dense_tiled(a, b, target, c_.stream.get());
      }
    });
    return all_c_blocks(panel, operands.nb);
  }

 private:
  /// Block columns [first, first + count) of B; only those that are not there yet are expanded.
  kernels::DenseView expand_b(std::uint32_t first, std::uint32_t count) {
    const kernels::DenseView view{
        .data = b_.data(),
        .num_rows = static_cast<std::uint32_t>(side_),
        .stride = static_cast<std::uint32_t>(plan::padded_elements(std::uint64_t{count} * c_.operands.m))};
    if (first == held_first_ && count == held_count_) return view;
    kernels::launch_expand_dense_b(c_.operands.b_view(), first, count, c_.operands.m, view, c_.stream.get());
    held_first_ = first;
    held_count_ = count;
    return view;
  }

  std::uint64_t side_;   // rows of dense B and columns of dense A, padded
  std::uint32_t group_;  // block columns of B expanded at a time
  std::uint32_t held_first_ = 0;
  std::uint32_t held_count_ = 0;  // block columns that b_ holds
  DeviceBuffer<std::uint16_t> a_;
  DeviceBuffer<std::uint16_t> b_;
};

}  // namespace

std::unique_ptr<Multiplier> make_dense_tiled_multiplier(const MultiplierContext& context) {
  return std::make_unique<DenseTiledMultiplier>(context);
}

}  // namespace spmm::cuda
