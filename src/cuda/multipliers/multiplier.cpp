// Which multiplier runs a kernel, and what several of them have in common.
#include "cuda/multipliers/multiplier.hpp"

#include <bit>
#include <stdexcept>
#include <string_view>

#include "kernels/pairs/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

/// The host side of the registry's kernels.
constexpr std::pair<std::string_view, MakeMultiplier*> kMultipliers[] = {
    {"rows", make_rows},
    {"row-spread", make_rows},
    {"pair-list", make_rows},
    {"small-blocks", make_small},
    {"row-rank", make_ranked},
    {"dense-tensor", make_dense_tensor},
    {"tile-tensor", make_tile_tensor},
    {"dense-tiled", make_dense_tiled},
    {"two-pointer", make_two_pointer},
    {"binary-search", make_binary_search},
    {"host-driven", make_host_driven},
};

bool is_sorted_whole(const plan::Panel& panel) {
  return panel.max_row_pairs > kernels::kShortRowPairs;
}

}  // namespace

std::unique_ptr<Multiplier> make_multiplier(const MultiplierContext& context) {
  if (context.num_dropped != nullptr) return make_selected(context);
  for (const auto& [name, make] : kMultipliers) {
    if (name == context.execution.kernel) return make(context);
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
  kernels::RecordOutput out = target.out;
  out.rows = operands.a.index.rows.data();
  out.look_back = look_back;
  return out;
}

CBlockFiller::CBlockFiller(const MultiplierContext& context)
    : Multiplier(context),
      results_{
          .values = scratch_.take<std::uint32_t>(c_.max_c_blocks() * c_.operands.m * c_.operands.m, "result elements"),
          .non_zero = scratch_.take<std::uint8_t>(c_.max_c_blocks(), "flags")},
      positions_(scratch_.take<std::uint32_t>(c_.max_c_blocks(), "positions")),
      work_(scratch_.take_work(kernels::compact_workspace_bytes(c_.max_c_blocks()), "panel work space")) {}

void CBlockFiller::multiply(const plan::Panel& panel, PanelTarget& target) {
  const kernels::CBlocksView c_blocks = fill(panel, results_);
  const kernels::RecordOutput out = c_.output(target);
  c_.timed(Stage::compact, [&] {
    kernels::launch_positions(results_.non_zero, c_blocks.num_c_blocks, positions_, out, work_, c_.stream().get());
    kernels::launch_pack_records(
        c_blocks, results_, c_.operands.m,
        {.columns = c_.operands.c_column_ids(), .positions = positions_, .num_saturated = c_.num_saturated}, out,
        c_.stream().get());
    target.is_counted = true;
  });
}

kernels::PanelPairs panel_pairs(const plan::Panel& panel, std::uint32_t column_bits) {
  return {.row_begin = panel.row_begin,
          .num_rows = panel.num_rows,
          .first_pair = panel.first_pair,
          .num_pairs = panel.num_pairs,
          .column_bits = column_bits};
}

PairLists::PairLists(const MultiplierContext& context, const std::function<bool(const plan::Panel&)>& is_skipped)
    : c_(context) {
  std::uint64_t pairs = 0;         // of a panel whose list lies in memory
  std::uint64_t sorted_pairs = 0;  // of one that is sorted as a whole: if all rows are short they are sorted one by one
  std::size_t work_bytes = 0;
  for (const plan::Panel& panel : c_.execution.panels) {
    if (!panel.expand) continue;
    if (!is_skipped(panel)) pairs = std::max(pairs, panel.num_pairs);
    if (is_sorted_whole(panel)) sorted_pairs = std::max(sorted_pairs, panel.num_pairs);
    work_bytes = std::max(work_bytes, is_sorted_whole(panel)
                                          ? kernels::list_pairs_workspace_bytes(panel.num_pairs)
                                          : kernels::short_rows_workspace_bytes(panel.num_pairs, panel.max_row_pairs));
  }
  for (std::uint64_t*& keys : buffers_.keys.data) keys = scratch_.take<std::uint64_t>(sorted_pairs, "pair keys");
  buffers_.pairs = {
      {scratch_.take<kernels::BlockPair>(pairs, "pairs"), scratch_.take<kernels::BlockPair>(sorted_pairs, "pairs")}};
  buffers_.c_block_keys = scratch_.take<std::uint64_t>(pairs, "C block keys");
  buffers_.offsets = scratch_.take<std::uint32_t>(pairs + 1, "pair offsets of C blocks");
  buffers_.num_c_blocks = scratch_.take<std::uint32_t>(1, "count");
  buffers_.host_num_c_blocks = host_num_c_blocks_.data();
  work_ = scratch_.take_work(work_bytes, "pair work space");
}

kernels::PairListView PairLists::list(const plan::Panel& panel, bool is_known, kernels::CBlocksView& c_blocks) {
  c_blocks.keys = buffers_.c_block_keys;
  const auto before = is_known ? lists_.find(panel.first_pair) : lists_.end();
  if (before != lists_.end() && lists_.size() == 1) {
    c_blocks.num_c_blocks = before->second.num_c_blocks;
    return before->second;
  }
  kernels::PairListBuffers buffers = buffers_;
  const kernels::PanelPairs pairs = panel_pairs(panel, c_blocks.column_bits);
  const kernels::RowProduct product = c_.operands.product();
  if (is_sorted_whole(panel)) {
    kernels::launch_list_pairs(product, pairs, buffers, work_, c_.stream().get());
  } else {
    kernels::launch_list_short_rows(product, pairs, panel.max_row_pairs, buffers, work_, c_.stream().get());
  }
  if (before == lists_.end()) c_.stream().synchronize();
  c_blocks.num_c_blocks = before == lists_.end() ? host_num_c_blocks_.value() : before->second.num_c_blocks;
  const kernels::PairListView list{
      .num_c_blocks = c_blocks.num_c_blocks, .offsets = buffers.offsets, .pairs = buffers.pairs.front()};
  lists_.insert_or_assign(panel.first_pair, list);
  return list;
}

}  // namespace spmm::cuda
