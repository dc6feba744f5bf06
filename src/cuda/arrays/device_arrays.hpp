// Operands and result of a product in device memory, as the engine and the pipeline see them; no CUDA header needed.
#pragma once

#include "spmm/device.hpp"

namespace spmm::cuda {

/// A device as products of one engine use it; device/context.hpp.
class DeviceContext;

/// Operands and result of a product in device memory.
struct DeviceArrays {
  const DeviceBsrView& a;
  const DeviceBsrView& b;
  const DeviceCall& call;
  DeviceBsrMatrix* out = nullptr;
};

/// Before anything else of such a product. Errors: UsageError (the stream is being captured).
void check_stream(CUstream_st* stream);

/// Errors: DeviceError (memory that is not this device's).
void check_arrays(const DeviceArrays& arrays, const DeviceContext& context);

}  // namespace spmm::cuda
