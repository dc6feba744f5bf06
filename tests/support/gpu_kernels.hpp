// Which kernels of the GPU take which operands, and which of them run here: for tests that go through all of them.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/tile_grid.hpp"
#include "kernels/tuning.hpp"
#include "plan/registry.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"

namespace spmm::test {

/// The largest block side that a kernel takes, up to `m`.
inline std::uint32_t side_for(const std::string& kernel, std::uint32_t m) {
  const auto id = plan::kernel_named(kernel);
  const std::uint32_t most = id ? plan::row_of(*id).max_side : 0;
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
  Options options;
  options.backend = Backend::cuda;
  options.kernel = kernel;
  try {
    (void)multiply(one, one, options);
  } catch (const DeviceError&) {
    return false;
  }
  return true;
}

}  // namespace spmm::test
