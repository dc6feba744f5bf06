// Products on the GPU for tests: options, which kernels take which operands, which of them run here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tiles/grid.hpp"
#include "kernels/tuning.hpp"
#include "plan/registry.hpp"
#include "spmm/spmm.hpp"
#include "support/matrices.hpp"

namespace spmm::test {

inline Options on_gpu(const std::string& kernel = "auto") {
  Options options;
  options.backend = Backend::cuda;
  options.kernel = kernel;
  options.force = true;  // of host-driven: some products have many C blocks
  return options;
}

/// The largest block side that a kernel takes, up to `m`.
inline std::uint32_t side_for(const std::string& kernel, std::uint32_t m) {
  const plan::KernelRow* const row = plan::kernel_named(kernel);
  const std::uint32_t most = row != nullptr ? row->max_side : 0;
  return most == 0 || m < most ? m : most;
}

/// Whether a kernel takes blocks of side m on a grid of nb x nb.
inline bool takes_operands(const std::string& kernel, std::uint32_t m, std::uint64_t nb) {
  if (kernel == "row-rank" && nb > kernels::kMaxRankedColumns) return false;
  if (kernel == "tile-tensor" && nb * m > kernels::kMaxTileSide) return false;
  return side_for(kernel, m) == m;
}

/// Whether the device has what a kernel needs.
inline bool device_runs(const std::string& kernel) {
  const BlockMatrix one = random_matrix(8, 8, 1, 9, 1);
  try {
    (void)multiply(one, one, on_gpu(kernel));
  } catch (const DeviceError&) {
    return false;
  }
  return true;
}

/// Kernels that run on this device: those for tensor cores need Hopper.
inline std::vector<std::string> kernels_here() {
  static const bool kHasTensor = device_runs("dense-tensor");
  std::vector<std::string> names;
  for (const KernelInfo& kernel : kernel_names()) {
    const bool runs = kHasTensor || !kernel.name.ends_with("-tensor");
    if (kernel.backend == Backend::cuda && runs) names.push_back(kernel.name);
  }
  return names;
}

}  // namespace spmm::test
