// Operands and result of a product in device memory, as the engine and the pipeline see them; no CUDA header needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  bool is_pattern = false;                 // values come later
  bool is_timed = true;                    // a report is wanted
  std::span<const DevicePair> products{};  // a and b have the sums of their sizes, and no arrays
  DeviceBsrBatch* batch = nullptr;         // their result; out is a part of it
};

/// The product of a pattern: DevicePlan.
class PlannedProduct {
 public:
  PlannedProduct() = default;
  PlannedProduct(const PlannedProduct&) = delete;
  PlannedProduct& operator=(const PlannedProduct&) = delete;
  virtual ~PlannedProduct() = default;

  virtual void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c, CUstream_st* stream) = 0;
  [[nodiscard]] virtual std::uint64_t count_saturated(const std::uint32_t* c, CUstream_st* stream) = 0;
};

/// Before anything else of such a product. Errors: UsageError (the stream is being captured).
void check_stream(CUstream_st* stream);

/// Integers of a result in host memory. Waits for work on the result's arrays alone if the product is complete.
/// Shapes: indices [count] of index_bytes, device.
std::vector<std::uint64_t> fetch_indices(const void* indices, std::uint64_t count, std::uint32_t index_bytes,
                                         int device);

/// Errors: DeviceError (memory that is not this device's).
void check_arrays(const DeviceArrays& arrays, const DeviceContext& context);

}  // namespace spmm::cuda
