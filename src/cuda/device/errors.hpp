// Errors of one of several devices name it.
#pragma once

#include "cuda/device/context.hpp"

namespace spmm::cuda {

/// In a catch block: throws the current exception again, with the device's number and name in its text if it is one
/// that a device makes: CudaError, DeviceError, OutOfMemory.
[[noreturn]] void rethrow_naming(const DeviceContext& context);

/// Runs body(). Errors: as rethrow_naming().
template <class Body>
void naming_device(const DeviceContext& context, const Body& body) {
  try {
    body();
  } catch (...) {
    rethrow_naming(context);
  }
}

}  // namespace spmm::cuda
