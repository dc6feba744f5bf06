// Decides memory and kernel from headers and limits: pure functions from data to a printable Plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "spmm/plan.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// What the machine and the user allow.
struct Limits {
  std::uint64_t host_bytes = 0;
  std::uint64_t device_bytes = 0;
  unsigned num_threads = 1;
  bool has_dense_tensor = false;  ///< the device can run the dense tensor-core kernel
};

/// Predicted bytes of host buffers for a CPU plan.
using NeedBytes = std::function<std::uint64_t(const Plan&)>;

/// Plan for the CPU: output buffers as large as useful and as small as the limit asks for.
/// Errors: OutOfMemory with need and have where even the smallest buffers do not fit.
Plan plan_cpu(const MatrixHeader& a, const MatrixHeader& b, const std::string& kernel, const std::string& reason,
              const Limits& limits, const NeedBytes& need_bytes);

/// Plan for a CUDA device: operands resident, result in panels. Errors: OutOfMemory with need and have.
Plan plan_cuda(const MatrixHeader& a, const MatrixHeader& b, const std::string& kernel, const std::string& reason,
               const Limits& limits);

/// Device bytes per candidate C block of a panel besides its packed records: accumulated values, coordinates, flags,
/// scan. Kernels that write records themselves accumulate nothing here; a listed panel keeps the sums of its split-K
/// blocks instead (kSplitKPairs: 8 * m * m / 4096 bytes per pair).
std::uint64_t c_block_bytes(std::uint32_t m);

/// Device bytes per pair of a panel that lists its C blocks by expansion.
inline constexpr std::uint64_t kEscPairBytes = 48;

}  // namespace spmm::plan
