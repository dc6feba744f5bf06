// Which multiplier runs a kernel, and what those have in common that fill C blocks.
#include "cuda/multipliers/multiplier.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "kernels/blocks/launch.hpp"

namespace spmm::cuda {
CBlockFiller::CBlockFiller(const MultiplierContext& context)
    : c_(context),
      values_(c_.memory, c_.max_c_blocks * c_.operands.m * c_.operands.m, "result elements"),
      non_zero_(c_.memory, c_.max_c_blocks, "flags"),
      positions_(c_.memory, c_.max_c_blocks, "positions"),
      work_(c_.memory, kernels::compact_workspace_bytes(c_.max_c_blocks), "panel work space") {}

void CBlockFiller::multiply(const plan::Panel& panel, PanelTarget& target) {
  const kernels::CBlockResults results{.values = values_.data(), .non_zero = non_zero_.data()};
  const kernels::CBlocksView c_blocks = fill(panel, results);
  const kernels::RecordOutput out{.to = target.records,
                                  .num_before = target.num_before,
                                  .rows = c_.operands.a.rows.data(),
                                  .look_back = nullptr,
                                  .num_blocks = target.num_blocks};
  c_.events.timed(Stage::compact, c_.stream, [&] {
    kernels::launch_positions(results.non_zero, c_blocks.num_c_blocks, positions_.data(), out,
                              {.data = work_.data(), .bytes = work_.size()}, c_.stream.get());
    kernels::launch_pack_records(
        c_blocks, results, c_.operands.m,
        {.columns = c_.operands.c_column_ids(), .positions = positions_.data(), .num_saturated = c_.num_saturated}, out,
        c_.stream.get());
    target.is_counted = true;
  });
}

RowOperands::RowOperands(const MultiplierContext& context) : c_(context) {
  const DeviceOperands& operands = c_.operands;
  if (operands.b.columns.size() >= kernels::kUnitBlocks) return;
  few_b_values_ = {c_.memory, kernels::kUnitBlocks * std::uint64_t{operands.side} * operands.side, "blocks of B"};
  check(cudaMemsetAsync(few_b_values_.data(), 0, few_b_values_.size() * sizeof(std::uint16_t), c_.stream.get()),
        "clear blocks");
}

kernels::RowProduct RowOperands::product() const {
  const DeviceOperands& operands = c_.operands;
  kernels::RowProduct product{.a = operands.a_view(),
                              .b = operands.b_view(),
                              .b_row_index = operands.b_row_index.data(),
                              .pair_offsets = operands.pair_offsets.data(),
                              .num_b_blocks = static_cast<std::uint32_t>(operands.b.columns.size()),
                              .m = operands.m,
                              .max_element = operands.max_element};
  if (few_b_values_.size() != 0) {
    check(cudaMemcpyAsync(few_b_values_.data(), operands.b_values.data(),
                          operands.b_values.size() * sizeof(std::uint16_t), cudaMemcpyDeviceToDevice, c_.stream.get()),
          "copy blocks");
    product.b.values = few_b_values_.data();
    product.num_b_blocks = kernels::kUnitBlocks;
  }
  return product;
}

std::unique_ptr<Multiplier> make_multiplier(const MultiplierContext& context) {
  using plan::KernelId;
  switch (context.execution.id) {
    case KernelId::rows:
    case KernelId::row_spread:
    case KernelId::pair_list:
      return make_row_multiplier(context);
    case KernelId::small_blocks:
      return make_small_multiplier(context);
    case KernelId::row_rank:
      return make_ranked_multiplier(context);
    case KernelId::dense_tensor:
      return make_dense_multiplier(context);
    case KernelId::tile_tensor:
      return make_tile_multiplier(context);
    case KernelId::dense_tiled:
      return make_dense_tiled_multiplier(context);
    case KernelId::two_pointer:
    case KernelId::binary_search:
    case KernelId::host_driven:
      return make_baseline_multiplier(context);
    default:
      break;
  }
  throw std::logic_error("no CUDA kernel: " + context.execution.kernel);
}

kernels::CBlocksView all_c_blocks(const plan::Panel& panel, std::uint32_t num_columns) {
  return {.num_c_blocks = std::uint64_t{panel.num_rows} * panel.num_columns,
          .keys = nullptr,
          .row_begin = panel.row_begin,
          .num_rows = panel.num_rows,
          .column_begin = panel.column_begin,
          .num_columns = panel.num_columns,
          .column_bits = static_cast<std::uint32_t>(std::bit_width(num_columns))};
}

kernels::PanelPairs panel_pairs(const plan::Panel& panel, std::uint32_t column_bits) {
  return {.row_begin = panel.row_begin,
          .num_rows = panel.num_rows,
          .first_pair = panel.first_pair,
          .num_pairs = panel.num_pairs,
          .column_bits = column_bits};
}

std::uint64_t max_listed_pairs(const std::vector<plan::Panel>& panels) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : panels) {
    if (panel.expand) most = std::max(most, panel.num_pairs);
  }
  return most;
}

}  // namespace spmm::cuda
