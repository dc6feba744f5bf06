// The pairs of a plan of short rows and side 8, listed by C block.
#include "cuda/planned_list.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {

std::unique_ptr<PlannedList> PlannedList::make(const DeviceOperands& operands, const std::vector<plan::Panel>& panels,
                                               std::uint64_t num_c_blocks, DeviceMemory& memory) {
  kernels::PanelPairs all{.num_rows = operands.a.num_rows,
                          .column_bits = static_cast<unsigned>(std::bit_width(operands.num_c_columns()))};
  std::uint64_t max_row_pairs = 0;
  for (const plan::Panel& panel : panels) {
    all.num_pairs += panel.num_pairs;
    max_row_pairs = std::max(max_row_pairs, panel.max_row_pairs);
  }
  const bool is_short = std::all_of(panels.begin(), panels.end(), [](const auto& panel) { return panel.expand; }) &&
                        max_row_pairs <= kernels::kShortRowPairs;
  if (operands.m != kernels::kPlannedListSide || !is_short || num_c_blocks == 0) return nullptr;
  if (all.num_pairs >= std::numeric_limits<std::uint32_t>::max()) return nullptr;
  try {
    return std::unique_ptr<PlannedList>(
        new PlannedList(operands, all, max_row_pairs, static_cast<std::uint32_t>(num_c_blocks), memory));
  } catch (const OutOfMemory&) {  // what there is will do
    return nullptr;
  }
}

PlannedList::PlannedList(const DeviceOperands& operands, const kernels::PanelPairs& all, std::uint64_t max_row_pairs,
                         std::uint32_t num_c_blocks, DeviceMemory& memory)
    : stream_(memory.stream()),
      num_c_blocks_(num_c_blocks),
      offsets_(memory, all.num_pairs + 1, "pair offsets of C blocks"),
      pairs_(memory, all.num_pairs, "pairs") {
  const DeviceBuffer<std::uint64_t> keys(memory, all.num_pairs, "C block keys");
  const DeviceBuffer<std::uint32_t> count(memory, 1, "count");
  const DeviceBuffer<std::byte> work(memory, kernels::list_short_rows_workspace_bytes(all.num_pairs, max_row_pairs),
                                     "pair work space");
  PinnedWord host_count(memory.context());
  kernels::PairListBuffers buffers{.keys = {},
                                   .pairs = {{pairs_.data(), nullptr}},
                                   .c_block_keys = keys.data(),
                                   .offsets = offsets_.data(),
                                   .num_c_blocks = count.data(),
                                   .host_num_c_blocks = host_count.data()};
  kernels::launch_list_short_rows(operands.expand_view(), all, max_row_pairs, buffers,
                                  {.data = work.data(), .bytes = work.size()}, stream_.get());
  if (operands.a_numbers.size() == 0) {  // pairs name positions
    kernels::launch_name_planned_pairs(operands.a_order.data(), operands.b_order.data(), all.num_pairs, pairs_.data(),
                                       stream_.get());
  }
  stream_.synchronize();  // the word of the host has been written
}

void PlannedList::multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const {
  kernels::launch_mul_planned_list({.num_c_blocks = num_c_blocks_, .offsets = offsets_.data(), .pairs = pairs_.data()},
                                   a, b, c, stream_.get());
}

}  // namespace spmm::cuda
