// Dense products on a CUDA device; built without CUDA, dense_device_stub.cpp stands in.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tools/dense/dense_multiply.hpp"

namespace spmm::dense {

/// Kernels that run on the device; none in a build without CUDA.
std::vector<KernelInfo> device_kernels();

/// Runs a request that multiply() has checked: tile chosen, no side zero.
/// Errors: DeviceError without a usable device or where it lacks what the kernel needs, OutOfMemory.
Measurement multiply_on_device(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                               std::span<std::byte> c);

}  // namespace spmm::dense
