// What a plan keeps of its pairs, if more than the operands' patterns.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/operands/operands.hpp"
#include "plan/execution.hpp"

namespace spmm::cuda {

/// Threads: one at a time, with the device current.
class PlannedProducts {
 public:
  virtual ~PlannedProducts() = default;

  /// C = A * B in the order of the stream; as DevicePlan::multiply.
  virtual void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const = 0;
};

/// The pattern of C. Shapes: heads [num_blocks, 2], device: block row and column.
struct PlannedPattern {
  const std::uint32_t* heads = nullptr;
  std::uint64_t num_blocks = 0;
  std::uint64_t num_pairs = 0;
};

/// The pairs of small blocks, each with its place in C. Takes what it needs of the operands if it succeeds; null if
/// there is no room, or if there are too many pairs to be numbered. Waits for the stream.
/// Values: operands by rows, neither padded nor in file order, with their order and the pairs of blocks of A.
/// Memory: 2.25 bytes a pair, 8 for each block of A and chunk of its row, B once more.
std::unique_ptr<PlannedProducts> place_pairs(DeviceOperands& operands, const PlannedPattern& pattern,
                                             DeviceMemory& memory);

/// The pairs of short rows and side 8, listed by C block. Null if there is no room, if blocks have another side, or if
/// a row has many pairs. Waits for the stream. Values: operands by rows, with their order and the pairs of blocks of A.
/// Memory: 12 bytes a pair. Values of operands are read where the caller has them.
std::unique_ptr<PlannedProducts> list_pairs(const DeviceOperands& operands, const std::vector<plan::Panel>& panels,
                                            const PlannedPattern& pattern, DeviceMemory& memory);

}  // namespace spmm::cuda
