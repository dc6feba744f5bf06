// The wrapped calls: __wrap_X stands in for X everywhere in this program, __real_X is the runtime's.
#include "gpu/faults/device_faults.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <utility>

namespace spmm::test {
namespace {

std::atomic<WrappedCall> fault_kind{WrappedCall::end};
std::atomic<std::uint64_t> fault_at{0};
std::atomic<bool> fault_from_here{false};
std::array<std::atomic<std::uint64_t>, kNumDeviceCalls> calls{};
std::atomic<std::uint64_t> failed{0};
thread_local cudaError_t pending = cudaSuccess;  // what cudaGetLastError() says of a call that failed on purpose

/// Counts a call; whether it has to fail.
bool fails(WrappedCall kind) {
  const std::uint64_t number = ++calls[static_cast<std::size_t>(kind)];
  const std::uint64_t at = fault_at;
  if (at == 0 || fault_kind != kind || (fault_from_here ? number < at : number != at)) return false;
  ++failed;
  return true;
}

/// The error of a call of that kind.
cudaError_t error_of(WrappedCall kind) {
  switch (kind) {
    case WrappedCall::memory:
    case WrappedCall::pinned:
      return cudaErrorMemoryAllocation;
    case WrappedCall::launch:
      return cudaErrorLaunchOutOfResources;
    case WrappedCall::copy:
      return cudaErrorInvalidValue;
    default:
      return cudaErrorUnknown;
  }
}

/// Fails, or makes the call.
template <class Real>
cudaError_t instead(WrappedCall kind, const Real& real) {
  if (!fails(kind)) return real();
  return pending = error_of(kind);
}

/// Makes the call, then fails: what it waits for is over in any case.
template <class Real>
cudaError_t after(WrappedCall kind, const Real& real) {
  const cudaError_t status = real();
  if (!fails(kind)) return status;
  return pending = error_of(kind);
}

}  // namespace

std::string text_of(const DeviceFault& fault) {
  return std::string(kDeviceCallNames[static_cast<std::size_t>(fault.kind)]) + (fault.from_here ? " from " : " once ") +
         std::to_string(fault.at);
}

void arm(const DeviceFault& fault) {
  fault_kind = fault.kind;
  fault_from_here = fault.from_here;
  for (auto& count : calls) count = 0;
  failed = 0;
  fault_at = fault.at;
}

void disarm() {
  fault_at = 0;
}

std::uint64_t num_calls(WrappedCall kind) {
  return calls[static_cast<std::size_t>(kind)];
}

std::uint64_t num_failed() {
  return failed;
}

}  // namespace spmm::test

using spmm::test::WrappedCall;

// NOLINTBEGIN(bugprone-reserved-identifier): the linker chooses these names.
/// One call: what it is for, whether it fails instead of running or after it, its name, parameters and arguments.
#define SPMM_WRAP(kind, when, name, parameters, arguments)                               \
  extern "C" cudaError_t __real_##name parameters;                                       \
  extern "C" cudaError_t __wrap_##name parameters {                                      \
    return spmm::test::when(WrappedCall::kind, [&] { return __real_##name arguments; }); \
  }

SPMM_WRAP(memory, instead, cudaMallocFromPoolAsync,
          (void** data, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream), (data, bytes, pool, stream))
SPMM_WRAP(memory, instead, cudaMalloc, (void** data, std::size_t bytes), (data, bytes))
SPMM_WRAP(pinned, instead, cudaHostAlloc, (void** data, std::size_t bytes, unsigned flags), (data, bytes, flags))
SPMM_WRAP(create, instead, cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))
SPMM_WRAP(create, instead, cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))
SPMM_WRAP(create, instead, cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* wanted), (pool, wanted))
SPMM_WRAP(launch, instead, __cudaLaunchKernel,
          (cudaKernel_t kernel, dim3 grid, dim3 block, void** values, std::size_t shared, cudaStream_t stream),
          (kernel, grid, block, values, shared, stream))
SPMM_WRAP(launch, instead, cudaLaunchKernel,
          (const void* kernel, dim3 grid, dim3 block, void** values, std::size_t shared, cudaStream_t stream),
          (kernel, grid, block, values, shared, stream))
SPMM_WRAP(launch, instead, cudaLaunchKernelExC, (const cudaLaunchConfig_t* how, const void* kernel, void** values),
          (how, kernel, values))
SPMM_WRAP(copy, instead, cudaMemcpyAsync,
          (void* to, const void* from, std::size_t bytes, cudaMemcpyKind way, cudaStream_t stream),
          (to, from, bytes, way, stream))
SPMM_WRAP(copy, instead, cudaMemsetAsync, (void* data, int value, std::size_t bytes, cudaStream_t stream),
          (data, value, bytes, stream))
SPMM_WRAP(wait, after, cudaStreamSynchronize, (cudaStream_t stream), (stream))
SPMM_WRAP(wait, after, cudaEventSynchronize, (cudaEvent_t event), (event))
SPMM_WRAP(wait, after, cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
          (stream, event, flags))
SPMM_WRAP(wait, after, cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
SPMM_WRAP(wait, after, cudaEventQuery, (cudaEvent_t event), (event))
SPMM_WRAP(query, instead, cudaGetDeviceProperties, (cudaDeviceProp * properties, int device), (properties, device))
SPMM_WRAP(query, instead, cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
          (value, attribute, device))
SPMM_WRAP(query, instead, cudaMemGetInfo, (std::size_t * free_bytes, std::size_t* total_bytes),
          (free_bytes, total_bytes))
SPMM_WRAP(query, instead, cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
          (pool, attribute, value))
SPMM_WRAP(query, instead, cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
          (pool, attribute, value))
SPMM_WRAP(query, instead, cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* kernel),
          (attributes, kernel))
SPMM_WRAP(query, instead, cudaFuncSetAttribute, (const void* kernel, cudaFuncAttribute attribute, int value),
          (kernel, attribute, value))
SPMM_WRAP(query, instead, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
          (int* blocks, const void* kernel, int threads, std::size_t shared, unsigned flags),
          (blocks, kernel, threads, shared, flags))
SPMM_WRAP(query, instead, cudaGetDevice, (int* device), (device))

extern "C" {
cudaError_t __real_cudaGetLastError();
cudaError_t __real_cudaPeekAtLastError();

cudaError_t __wrap_cudaGetLastError() {
  const cudaError_t real = __real_cudaGetLastError();
  return spmm::test::pending != cudaSuccess ? std::exchange(spmm::test::pending, cudaSuccess) : real;
}

cudaError_t __wrap_cudaPeekAtLastError() {
  return spmm::test::pending != cudaSuccess ? spmm::test::pending : __real_cudaPeekAtLastError();
}
}
// NOLINTEND(bugprone-reserved-identifier)
