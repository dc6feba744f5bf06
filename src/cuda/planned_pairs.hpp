// The pairs of a plan of small blocks, each with its place in C.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/device/raii.hpp"
#include "cuda/operands/operands.hpp"
#include "cuda/planned_products.hpp"
#include "kernels/small/planned.hpp"

namespace spmm::cuda {

/// Memory: 2.25 bytes a pair, 8 for each block of A and chunk of its row, B once more.
class PlannedPairs : public PlannedProducts {
 public:
  /// The pattern of C. Shapes: heads [num_blocks, 2], device: block row and column.
  struct Pattern {
    const std::uint32_t* heads = nullptr;
    std::uint64_t num_blocks = 0;
    std::uint64_t num_pairs = 0;
  };

  /// Places of all pairs. Takes what it needs of the operands if it succeeds; null if there is no
  /// room, or if there are too many pairs to be numbered. Waits for the stream.
  /// Values: operands by rows, neither padded nor in file order, with their order and the pairs of blocks of A.
  static std::unique_ptr<PlannedPairs> make(DeviceOperands& operands, const Pattern& pattern, DeviceMemory& memory);

  void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const override;

 private:
  PlannedPairs(DeviceOperands& operands, const Pattern& pattern, DeviceMemory& memory);
  void place(const kernels::PlannedPattern& view, const kernels::PlannedRow* rows, std::uint32_t num_slots,
             DeviceMemory& memory);
  [[nodiscard]] kernels::PlannedPairs kept() const;

  const Stream& stream_;
  std::uint32_t m_;
  std::uint64_t num_a_;                             // blocks of A
  std::uint64_t max_row_blocks_ = 0;                // of A
  DeviceBuffer<kernels::PlannedWord> words_;        // [num_pairs / 32 + 1]
  DeviceBuffer<std::uint16_t> places_;              // [num_pairs]
  DeviceBuffer<kernels::PlannedSegment> segments_;  // [segments]
  DeviceBuffer<kernels::PlannedTask> tasks_;        // [num_tasks + 1]
  DeviceBuffer<std::uint32_t> b_order_;             // [nnzb of B]: block of the caller
  DeviceBuffer<std::uint16_t> b_values_;            // [nnzb of B, m, m], transposed
  DeviceBuffer<std::uint32_t> largest_;             // [1], element of both operands
  std::uint32_t task_blocks_ = 0;
};

}  // namespace spmm::cuda
