// Sums over a warp.
#pragma once

#include <cstdint>

namespace spmm::kernels {

/// Sum of the values of this lane and those before it.
/// Threads: one whole warp.
__device__ inline std::uint32_t inclusive_warp_sum(std::uint32_t value) {
#pragma unroll
  for (std::uint32_t step = 1; step < 32; step *= 2) {
    const std::uint32_t left = __shfl_up_sync(~0u, value, step);
    if (threadIdx.x % 32 >= step) value += left;
  }
  return value;
}

/// Sum over the warp, on all lanes.
/// Threads: one whole warp.
template <class T>
__device__ T warp_total(T value) {
#pragma unroll
  for (std::uint32_t step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

}  // namespace spmm::kernels
