// What a plan keeps of its pairs, if more than the operands' patterns.
#pragma once

#include <cstdint>

namespace spmm::cuda {

/// Threads: one at a time, with the device current.
class PlannedProducts {
 public:
  virtual ~PlannedProducts() = default;

  /// C = A * B in the order of the stream; as DevicePlan::multiply.
  virtual void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const = 0;
};

}  // namespace spmm::cuda
