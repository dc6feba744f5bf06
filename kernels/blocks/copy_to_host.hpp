// Words of the device, written to page-locked memory of the host by a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace spmm::kernels {

/// As a copy would, but no copy engine is waited for: one that another stream keeps busy may leave a copy of four bytes
/// for when that stream has a pause (behind a panel of 1 GB: 20 ms).
/// Shapes: from [count], device; to [count], page-locked.
void launch_copy_to_host(const std::uint32_t* from, std::uint32_t count, std::uint32_t* to, cudaStream_t stream);

}  // namespace spmm::kernels
