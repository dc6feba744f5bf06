// Which multiplier runs a kernel, and those of the kernels that list or visit C blocks one by one.
#include "cuda/multipliers/multiplier.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "cuda/multipliers/host_driven.hpp"
#include "kernels/baselines/launch.hpp"
#include "kernels/blocks/launch.hpp"

namespace spmm::cuda {
namespace {

/// C blocks listed by expansion, without their pairs.
class CBlockList {
 public:
  CBlockList(DeviceMemory& memory, std::uint64_t max_pairs)
      : keys_{DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys"),
              DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys")},
        c_blocks_(memory, max_pairs, "C block keys"),
        num_c_blocks_(memory, 1, "count"),
        work_(memory, max_pairs == 0 ? 0 : kernels::list_c_blocks_workspace_bytes(max_pairs), "listing work space") {}

  /// Replaces all C blocks of the panel by those with pairs; waits for the stream.
  void list(const plan::Panel& panel, const DeviceOperands& operands, const Stream& stream,
            kernels::CBlocksView& c_blocks) {
    kernels::CBlockListBuffers buffers{.keys = {{keys_[0].data(), keys_[1].data()}},
                                       .c_block_keys = c_blocks_.data(),
                                       .num_c_blocks = num_c_blocks_.data()};
    kernels::launch_list_c_blocks(operands.expand_view(), panel_pairs(panel, c_blocks.column_bits), buffers,
                                  {.data = work_.data(), .bytes = work_.size()}, stream.get());
    c_blocks.num_c_blocks = fetch(num_c_blocks_.data(), stream);
    c_blocks.keys = c_blocks_.data();
  }

 private:
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;  // [max_pairs] each
  DeviceBuffer<std::uint64_t> c_blocks_;             // [max_pairs]
  DeviceBuffer<std::uint32_t> num_c_blocks_;
  DeviceBuffer<std::byte> work_;
};

/// two-pointer, binary-search and host-driven: the kernel, or the host, merges the lists of a C block.
class MergeMultiplier : public CBlockFiller {
 public:
  using Launch = decltype(&kernels::launch_mul_two_pointer);

  /// Values: launch = of the kernel; null: the host merges.
  MergeMultiplier(const MultiplierContext& context, Launch launch)
      : CBlockFiller(context), list_(context.memory, max_listed_pairs(context.execution.panels)), launch_(launch) {
    if (launch_ == nullptr) host_driven_ = std::make_unique<HostDriven>(c_.operands, c_.stream);
  }

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    kernels::CBlocksView c_blocks = all_c_blocks(panel, c_.operands.num_c_columns());
    if (panel.expand) {
      c_.events.timed(Stage::count, c_.stream, [&] { list_.list(panel, c_.operands, c_.stream, c_blocks); });
    }
    const kernels::OperandView a = c_.operands.a_view();
    const kernels::OperandView b = c_.operands.b_view();
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      if (host_driven_) {
        host_driven_->multiply(c_.operands, c_blocks, results, c_.stream, c_.run);
      } else {
        launch_(a, b, c_blocks, c_.operands.m, results, c_.stream.get());
      }
    });
    return c_blocks;
  }

 private:
  CBlockList list_;
  Launch launch_;
  std::unique_ptr<HostDriven> host_driven_;
};

}  // namespace

CBlockFiller::CBlockFiller(const MultiplierContext& context)
    : c_(context),
      values_(c_.memory, c_.max_c_blocks * c_.operands.m * c_.operands.m, "result elements"),
      non_zero_(c_.memory, c_.max_c_blocks, "flags"),
      positions_(c_.memory, c_.max_c_blocks, "positions"),
      work_(c_.memory, kernels::compact_workspace_bytes(c_.max_c_blocks), "panel work space") {}

void CBlockFiller::multiply(const plan::Panel& panel, PackedPanel& target) {
  const kernels::CBlockResults results{.values = values_.data(), .non_zero = non_zero_.data()};
  const kernels::CBlocksView c_blocks = fill(panel, results);
  c_.events.timed(Stage::compact, c_.stream, [&] {
    kernels::launch_positions(results.non_zero, c_blocks.num_c_blocks, positions_.data(), target.num_blocks.data(),
                              {.data = work_.data(), .bytes = work_.size()}, c_.stream.get());
    kernels::launch_pack_records(c_blocks, results, c_.operands.m,
                                 {.rows = c_.operands.a.rows.data(),
                                  .columns = c_.operands.c_column_ids(),
                                  .positions = positions_.data(),
                                  .records = reinterpret_cast<std::uint32_t*>(target.records.data()),
                                  .num_saturated = c_.num_saturated},
                                 c_.stream.get());
    target.is_counted = true;
  });
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
      return std::make_unique<MergeMultiplier>(context, kernels::launch_mul_two_pointer);
    case KernelId::binary_search:
      return std::make_unique<MergeMultiplier>(context, kernels::launch_mul_binary_search);
    case KernelId::host_driven:
      return std::make_unique<MergeMultiplier>(context, nullptr);
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
