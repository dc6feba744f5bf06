// Kernels with one thread per item, written where they are launched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {

template <class Body>
__global__ void __launch_bounds__(kItemThreads) call_for_items(std::uint64_t count, Body body) {
  for_each_item(count, body);
}

/// Calls body(x) on the device for every x in [0, count), neighbouring threads on neighbouring items.
/// Values: body = [=] __device__ (std::uint64_t x).
template <class Body>
void launch_items(std::uint64_t count, cudaStream_t stream, const char* what, const Body& body) {
  if (count == 0) return;
  call_for_items<<<item_grid(count), kItemThreads, 0, stream>>>(count, body);
  check_launch(what);
}

}  // namespace spmm::kernels
