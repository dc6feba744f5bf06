// Which multiplier runs a kernel, and what several of them have in common.
#include "cuda/multipliers/multiplier.hpp"

#include <bit>
#include <stdexcept>

#include "kernels/pairs/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

using plan::KernelId;

/// The host side of the registry's kernels.
constexpr std::pair<KernelId, MakeMultiplier*> kMultipliers[] = {
    {KernelId::rows, make_rows},
    {KernelId::row_spread, make_rows},
    {KernelId::pair_list, make_rows},
    {KernelId::small_blocks, make_small},
    {KernelId::row_rank, make_ranked},
    {KernelId::dense_tensor, make_dense_tensor},
    {KernelId::tile_tensor, make_tile_tensor},
    {KernelId::dense_tiled, make_dense_tiled},
    {KernelId::two_pointer, make_two_pointer},
    {KernelId::binary_search, make_binary_search},
    {KernelId::host_driven, make_host_driven},
};

bool is_sorted_whole(const plan::Panel& panel) {
  return panel.max_row_pairs > kernels::kShortRowPairs;
}

}  // namespace

std::unique_ptr<Multiplier> make_multiplier(const MultiplierContext& context) {
  for (const auto& [id, make] : kMultipliers) {
    if (id == context.execution.id) return make(context);
  }
  throw std::logic_error("no CUDA kernel: " + context.execution.kernel);
}

kernels::CBlocksView MultiplierContext::all_c_blocks(const plan::Panel& panel) const {
  return {.num_c_blocks = std::uint64_t{panel.num_rows} * panel.num_columns,
          .keys = nullptr,
          .row_begin = panel.row_begin,
          .num_rows = panel.num_rows,
          .column_begin = panel.column_begin,
          .num_columns = panel.num_columns,
          .column_bits = static_cast<std::uint32_t>(std::bit_width(operands.num_c_columns()))};
}

kernels::RecordOutput MultiplierContext::output(const PanelTarget& target, std::uint64_t* look_back) const {
  return {.to = target.records,
          .num_before = target.num_before,
          .rows = operands.a.rows.data(),
          .look_back = look_back,
          .num_blocks = target.num_blocks,
          .largest = target.largest,
          .least_largest = target.least_largest,
          .most_largest = target.most_largest};
}

CBlockFiller::CBlockFiller(const MultiplierContext& context)
    : Multiplier(context),
      values_(c_.memory, c_.max_c_blocks() * c_.operands.m * c_.operands.m, "result elements"),
      non_zero_(c_.memory, c_.max_c_blocks(), "flags"),
      positions_(c_.memory, c_.max_c_blocks(), "positions"),
      work_(c_.memory, kernels::compact_workspace_bytes(c_.max_c_blocks()), "panel work space") {}

void CBlockFiller::multiply(const plan::Panel& panel, PanelTarget& target) {
  const kernels::CBlockResults results{.values = values_.data(), .non_zero = non_zero_.data()};
  const kernels::CBlocksView c_blocks = fill(panel, results);
  const kernels::RecordOutput out = c_.output(target);
  c_.timed(Stage::compact, [&] {
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
                              .num_a_blocks = operands.a.columns.size(),
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

kernels::PanelPairs panel_pairs(const plan::Panel& panel, std::uint32_t column_bits) {
  return {.row_begin = panel.row_begin,
          .num_rows = panel.num_rows,
          .first_pair = panel.first_pair,
          .num_pairs = panel.num_pairs,
          .column_bits = column_bits};
}

void PairLists::Room::raise(const plan::Panel& panel, bool is_skipped) {
  if (!is_skipped) pairs = std::max(pairs, panel.num_pairs);
  if (is_sorted_whole(panel)) {
    sorted_pairs = std::max(sorted_pairs, panel.num_pairs);
    work_bytes = std::max(work_bytes, kernels::list_pairs_workspace_bytes(panel.num_pairs));
  } else {
    work_bytes = std::max(work_bytes, kernels::short_rows_workspace_bytes(panel.num_pairs, panel.max_row_pairs));
  }
}

PairLists::PairLists(const MultiplierContext& context, const Room& room)
    : c_(context),
      keys_{DeviceBuffer<std::uint64_t>(c_.memory, room.sorted_pairs, "pair keys"),
            DeviceBuffer<std::uint64_t>(c_.memory, room.sorted_pairs, "pair keys")},
      pairs_{DeviceBuffer<kernels::BlockPair>(c_.memory, room.pairs, "pairs"),
             DeviceBuffer<kernels::BlockPair>(c_.memory, room.sorted_pairs, "pairs")},
      c_block_keys_(c_.memory, room.pairs, "C block keys"),
      offsets_(c_.memory, room.pairs + 1, "pair offsets of C blocks"),
      num_c_blocks_(c_.memory, 1, "count"),
      host_num_c_blocks_(c_.memory.context()),
      work_(c_.memory, room.work_bytes, "pair work space") {}

kernels::PairListView PairLists::list(const plan::Panel& panel, bool is_known, kernels::CBlocksView& c_blocks) {
  c_blocks.keys = c_block_keys_.data();
  const auto before = is_known ? lists_.find(panel.first_pair) : lists_.end();
  if (before != lists_.end() && lists_.size() == 1) {
    c_blocks.num_c_blocks = before->second.num_c_blocks;
    return before->second;
  }
  kernels::PairListBuffers buffers{.keys = {{keys_[0].data(), keys_[1].data()}},
                                   .pairs = {{pairs_[0].data(), pairs_[1].data()}},
                                   .c_block_keys = c_block_keys_.data(),
                                   .offsets = offsets_.data(),
                                   .num_c_blocks = num_c_blocks_.data(),
                                   .host_num_c_blocks = host_num_c_blocks_.data()};
  const kernels::PanelPairs pairs = panel_pairs(panel, c_blocks.column_bits);
  const kernels::ExpandView operands = c_.operands.expand_view();
  if (is_sorted_whole(panel)) {
    kernels::launch_list_pairs(operands, pairs, buffers, work(), c_.stream.get());
  } else {
    kernels::launch_list_short_rows(operands, pairs, panel.max_row_pairs, buffers, work(), c_.stream.get());
  }
  if (before == lists_.end()) c_.stream.synchronize();
  c_blocks.num_c_blocks = before == lists_.end() ? host_num_c_blocks_.value() : before->second.num_c_blocks;
  const kernels::PairListView list{
      .num_c_blocks = c_blocks.num_c_blocks, .offsets = offsets_.data(), .pairs = buffers.pairs.front()};
  lists_.insert_or_assign(panel.first_pair, list);
  return list;
}

}  // namespace spmm::cuda
