// The CUDA backend as the facade sees it; no CUDA header needed. Built without CUDA, stub.cpp stands in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "cuda/arrays/device_arrays.hpp"
#include "plan/choice.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// A device, and what the product holds of its memory.
struct DeviceUse {
  DeviceContext* device = nullptr;
  MemoryShare* memory = nullptr;
};

/// A running product, and the devices that it may run on.
struct DeviceRun : Run {
  DeviceContext* device = nullptr;        ///< null on the CPU
  std::vector<DeviceUse> more_devices{};  ///< that share the product with it
  const DeviceArrays* arrays = nullptr;   ///< operands and result in device memory; null: sources and a sink
};

/// "13.0 for sm_90", or "" in a build without CUDA.
std::string build_info();

/// Whether this build can use CUDA and a device is there; finds out without CUDA. Else sets `why_not`.
bool may_start(std::string& why_not);

/// Devices that CUDA can use, which starts its runtime; 0 sets `why_not`.
int num_devices(std::string& why_not);

/// Picks a device and starts it: `wanted` >= 0 names it; -1 means device 0 if one is visible, else local rank modulo
/// devices. Returns nothing and sets `why_not` if there is none. The device that is current on the caller's thread
/// stays. Errors: DeviceError if a named device does not exist.
std::shared_ptr<DeviceContext> find_device(int wanted, std::string& why_not);

/// A device as it is now. Values: number = CUDA's; bytes = what products on this context may take together, used ones
/// included, or, if memory is the caller's, all that the device has.
plan::Gpu describe(const DeviceContext& context, bool is_callers_memory = false);

/// Gives device memory back that is kept for later products and not in use.
void trim(DeviceContext& context);

/// Profiler ranges for the stages (NVTX); empty in a build without CUDA.
StageHooks stage_hooks();

/// C = A * B on run.device, records to `output` in order; with run.more_devices on all of them, records also at their
/// places if the sink takes them so. Does not call sink.finish(). The device that is current on the caller's thread
/// stays.
/// `execution` is the choice made from the headers; once pairs are counted, it is made again within its limits.
/// Threads: several products may run on one context at once.
/// Errors: FormatError, OutOfMemory, DeviceError, UsageError, Interrupted, what source and sink throw.
ProductStats multiply(const Source& a, const Source& b, Output& output, plan::Choice& execution, const DeviceRun& run);

/// The product of run.arrays, whose values come later; sets the result's pattern. expected: as multiply(), on
/// one device. Values: its limits name a kernel that writes all C blocks with pairs. What `run` refers to, and the
/// sources' headers, must outlive it. Errors: as multiply().
std::unique_ptr<PlannedProduct> plan_product(const Source& a, const Source& b, const plan::Choice& expected,
                                             const DeviceRun& run);

}  // namespace spmm::cuda
