// The CUDA backend as the facade sees it; no CUDA header needed. Built without CUDA, stub.cpp stands in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/run.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// A device that can be used.
struct DeviceInfo {
  int number = 0;
  std::string name{};
  std::uint64_t free_bytes = 0;
  bool has_dense_tensor = false;  ///< can run the dense tensor-core kernel
};

/// "13.0 for sm_90", or "" in a build without CUDA.
std::string build_info();

/// Picks a device: `wanted` >= 0 names it; -1 means device 0 where one is visible, else local rank modulo devices.
/// Returns nothing and sets `why_not` if there is none. Errors: DeviceError if a named device does not exist.
std::optional<DeviceInfo> find_device(int wanted, std::string& why_not);

/// Profiler ranges for the stages (NVTX); empty in a build without CUDA.
StageHooks stage_hooks();

/// C = A * B on the device, records to `sink` in order. Does not call sink.finish().
/// `execution` is the expected decision; once pairs are counted, `decide` gives the exact one, which is run as it
/// stands and left in `execution`.
/// Errors: FormatError, OutOfMemory, DeviceError, UsageError, Interrupted, what source and sink throw.
ProductStats multiply(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                      const plan::Decide& decide, int device, const Run& run);

}  // namespace spmm::cuda
