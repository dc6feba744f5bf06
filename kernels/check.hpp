// CUDA errors become exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "spmm/error.hpp"

namespace spmm {

/// Clears and throws a CUDA error. Errors: OutOfMemory for a failed allocation, CudaError for everything else.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemory(what, std::string("the device says: ") + cudaGetErrorString(status),
                      "lower --memory-limit, free memory on the device, or use --backend cpu");
  }
  throw CudaError(std::string(what) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

/// Checks a kernel launch.
inline void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

}  // namespace spmm
