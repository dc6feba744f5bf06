// What the current device is like, and as many CTAs as it holds at a time, for kernels whose CTAs take one piece of
// work after the other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/check.hpp"

namespace spmm::kernels {

/// Of the current device.
inline std::uint32_t device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&value, attribute, device), "device attribute");
  return static_cast<std::uint32_t>(value);
}

/// Allows a kernel shared_bytes of dynamic shared memory, and returns how many of its CTAs the current device holds.
template <class Kernel>
std::uint32_t resident_ctas(Kernel* kernel, std::uint32_t threads, std::uint32_t shared_bytes) {
  int per_processor = 0;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "dynamic shared memory");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, static_cast<int>(threads), shared_bytes),
        "occupancy");
  return device_attribute(cudaDevAttrMultiProcessorCount) * static_cast<std::uint32_t>(std::max(1, per_processor));
}

}  // namespace spmm::kernels
