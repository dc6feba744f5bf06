// How chains are launched.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {

/// kernel<<<num_ctas, kItemThreads, shared_bytes, stream>>>(arguments...)
template <class... Parameters, class... Arguments>
void launch_ctas(void (*kernel)(Parameters...), std::uint64_t num_ctas, std::size_t shared_bytes, cudaStream_t stream,
                 const char* what, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(num_ctas));
  config.blockDim = dim3(kItemThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), what);
}

}  // namespace spmm::kernels
