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

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the linker chooses these names.
cudaError_t __real_cudaMallocFromPoolAsync(void**, std::size_t, cudaMemPool_t, cudaStream_t);
cudaError_t __real_cudaMalloc(void**, std::size_t);
cudaError_t __real_cudaHostAlloc(void**, std::size_t, unsigned);
cudaError_t __real_cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t __real_cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t __real_cudaMemPoolCreate(cudaMemPool_t*, const cudaMemPoolProps*);
cudaError_t __real___cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);
cudaError_t __real_cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
cudaError_t __real_cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t __real_cudaMemsetAsync(void*, int, std::size_t, cudaStream_t);
cudaError_t __real_cudaStreamSynchronize(cudaStream_t);
cudaError_t __real_cudaEventSynchronize(cudaEvent_t);
cudaError_t __real_cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t __real_cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t __real_cudaEventQuery(cudaEvent_t);
cudaError_t __real_cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t __real_cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t __real_cudaMemGetInfo(std::size_t*, std::size_t*);
cudaError_t __real_cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t __real_cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t __real_cudaFuncGetAttributes(cudaFuncAttributes*, const void*);
cudaError_t __real_cudaFuncSetAttribute(const void*, cudaFuncAttribute, int);
cudaError_t __real_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int*, const void*, int, std::size_t, unsigned);
cudaError_t __real_cudaGetDevice(int*);
cudaError_t __real_cudaGetLastError();
cudaError_t __real_cudaPeekAtLastError();

cudaError_t __wrap_cudaMallocFromPoolAsync(void** data, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return spmm::test::instead(WrappedCall::memory,
                             [&] { return __real_cudaMallocFromPoolAsync(data, bytes, pool, stream); });
}

cudaError_t __wrap_cudaMalloc(void** data, std::size_t bytes) {
  return spmm::test::instead(WrappedCall::memory, [&] { return __real_cudaMalloc(data, bytes); });
}

cudaError_t __wrap_cudaHostAlloc(void** data, std::size_t bytes, unsigned flags) {
  return spmm::test::instead(WrappedCall::pinned, [&] { return __real_cudaHostAlloc(data, bytes, flags); });
}

cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return spmm::test::instead(WrappedCall::create, [&] { return __real_cudaStreamCreateWithFlags(stream, flags); });
}

cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return spmm::test::instead(WrappedCall::create, [&] { return __real_cudaEventCreateWithFlags(event, flags); });
}

cudaError_t __wrap_cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* wanted) {
  return spmm::test::instead(WrappedCall::create, [&] { return __real_cudaMemPoolCreate(pool, wanted); });
}

cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                                      cudaStream_t stream) {
  return spmm::test::instead(
      WrappedCall::launch, [&] { return __real___cudaLaunchKernel(kernel, grid, block, arguments, shared, stream); });
}

cudaError_t __wrap_cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                                    cudaStream_t stream) {
  return spmm::test::instead(WrappedCall::launch,
                             [&] { return __real_cudaLaunchKernel(kernel, grid, block, arguments, shared, stream); });
}

cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  return spmm::test::instead(WrappedCall::copy, [&] { return __real_cudaMemcpyAsync(to, from, bytes, kind, stream); });
}

cudaError_t __wrap_cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return spmm::test::instead(WrappedCall::copy, [&] { return __real_cudaMemsetAsync(data, value, bytes, stream); });
}

cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream) {
  return spmm::test::after(WrappedCall::wait, [&] { return __real_cudaStreamSynchronize(stream); });
}

cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event) {
  return spmm::test::after(WrappedCall::wait, [&] { return __real_cudaEventSynchronize(event); });
}

cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return spmm::test::after(WrappedCall::wait, [&] { return __real_cudaStreamWaitEvent(stream, event, flags); });
}

cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return spmm::test::after(WrappedCall::wait, [&] { return __real_cudaEventRecord(event, stream); });
}

cudaError_t __wrap_cudaEventQuery(cudaEvent_t event) {
  return spmm::test::after(WrappedCall::wait, [&] { return __real_cudaEventQuery(event); });
}

cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return spmm::test::instead(WrappedCall::query, [&] { return __real_cudaGetDeviceProperties(properties, device); });
}

cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return spmm::test::instead(WrappedCall::query,
                             [&] { return __real_cudaDeviceGetAttribute(value, attribute, device); });
}

cudaError_t __wrap_cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return spmm::test::instead(WrappedCall::query, [&] { return __real_cudaMemGetInfo(free_bytes, total_bytes); });
}

cudaError_t __wrap_cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return spmm::test::instead(WrappedCall::query, [&] { return __real_cudaMemPoolGetAttribute(pool, attribute, value); });
}

cudaError_t __wrap_cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return spmm::test::instead(WrappedCall::query, [&] { return __real_cudaMemPoolSetAttribute(pool, attribute, value); });
}

cudaError_t __wrap_cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return spmm::test::instead(WrappedCall::query, [&] { return __real_cudaFuncGetAttributes(attributes, kernel); });
}

cudaError_t __wrap_cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return spmm::test::instead(WrappedCall::query, [&] { return __real_cudaFuncSetAttribute(kernel, attribute, value); });
}

cudaError_t __wrap_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel, int threads,
                                                                          std::size_t shared, unsigned flags) {
  return spmm::test::instead(WrappedCall::query, [&] {
    return __real_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, flags);
  });
}

cudaError_t __wrap_cudaGetDevice(int* device) {
  return spmm::test::instead(WrappedCall::query, [&] { return __real_cudaGetDevice(device); });
}

cudaError_t __wrap_cudaGetLastError() {
  const cudaError_t real = __real_cudaGetLastError();
  return spmm::test::pending != cudaSuccess ? std::exchange(spmm::test::pending, cudaSuccess) : real;
}

cudaError_t __wrap_cudaPeekAtLastError() {
  return spmm::test::pending != cudaSuccess ? spmm::test::pending : __real_cudaPeekAtLastError();
}
// NOLINTEND(bugprone-reserved-identifier)
}
