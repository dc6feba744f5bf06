// The pairs of a plan of short rows and side 8, listed by C block.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/operands/operands.hpp"
#include "cuda/planned_products.hpp"
#include "kernels/pairs/planned.hpp"
#include "plan/execution.hpp"

namespace spmm::cuda {

/// Memory: 12 bytes a pair. Values of operands are read where the caller has them.
class PlannedList : public PlannedProducts {
 public:
  /// Lists all pairs; null if there is no room, if blocks have another side, or if a row has many pairs.
  /// Values: operands by rows, with their order and the pairs of blocks of A; num_c_blocks of the pattern.
  static std::unique_ptr<PlannedList> make(const DeviceOperands& operands, const std::vector<plan::Panel>& panels,
                                           std::uint64_t num_c_blocks, DeviceMemory& memory);

  void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const override;

 private:
  PlannedList(const DeviceOperands& operands, const kernels::PanelPairs& all, std::uint64_t max_row_pairs,
              std::uint32_t num_c_blocks, DeviceMemory& memory);

  const Stream& stream_;
  std::uint32_t num_c_blocks_;
  DeviceBuffer<std::uint32_t> offsets_;     // [num_pairs + 1], of which C blocks have the first ones
  DeviceBuffer<kernels::BlockPair> pairs_;  // [num_pairs]
};

}  // namespace spmm::cuda
