// Operands and results of products as arrays in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/arrays/device_arrays.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/operands/operands.hpp"
#include "kernels/blocks/arrays.hpp"

namespace spmm::cuda {

class GatheredProducts;

/// Whether kernels can read blocks of elements that lie there: 16 bytes at a time.
bool is_aligned(const void* values);

/// Checks the arrays, or those of many products, and makes what uploading makes of records: A's elements stay where
/// they are, if they are aligned, B's blocks are transposed into a copy. Waits for the stream. Stream: behind the work
/// of the caller's stream at the moment of the call. Values: many = null, or those of `arrays`. Errors: FormatError
/// (indptr or indices), OutOfMemory.
SortedOperands read_arrays(const DeviceArrays& arrays, GatheredProducts* many, const MatrixHeader& header,
                           DeviceMemory& memory, StageEvents& events);

/// Errors: DeviceError (memory that is not this device's).
void check_memory(const void* data, const std::string& name, const DeviceContext& context);
void check_arrays(const DeviceArrays& arrays, const DeviceContext& context);

/// Errors: FormatError if something was found in a matrix, by its name.
void check_findings(const DeviceBsrView& view, const std::string& name, const kernels::ArrayFindings& found);

/// Memory of the caller's allocator or the device's pool for an array of a result; null for no bytes.
/// Stream: memory.stream() may use it at once. Errors: OutOfMemory.
std::shared_ptr<std::byte> allocate_result(const DeviceCall& call, DeviceMemory& memory, std::uint64_t bytes,
                                           const char* what);

}  // namespace spmm::cuda
