// A device: its primary context, memory pool, streams and pinned memory.
#include "cuda/device/context.hpp"

#include <cuda.h>

#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "kernels/check.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

template <class Function>
Function* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  constexpr unsigned kVersion = 12000;  // of the driver's interface: that of the oldest toolkit that builds this
  check(cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result), name);
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result), name);
#endif
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    throw DeviceError("CUDA driver", std::string("has no ") + name,
                      "update the driver, or use ProductOptions::backend = cpu");
  }
  return reinterpret_cast<Function*>(found);
}

/// The few functions of the driver that the runtime has no counterpart for. Found at run time: a program that links the
/// driver does not start on a machine without one.
struct Driver {
  decltype(cuDeviceGet)* device_get = driver_function<decltype(cuDeviceGet)>("cuDeviceGet");
  decltype(cuDevicePrimaryCtxRetain)* primary_retain =
      driver_function<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  decltype(cuCtxPushCurrent)* push = driver_function<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent");
  decltype(cuCtxPopCurrent)* pop = driver_function<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent");
  decltype(cuMemGetAddressRange)* address_range =
      driver_function<decltype(cuMemGetAddressRange)>("cuMemGetAddressRange");
};

const Driver& driver() {
  static const Driver kDriver;
  return kDriver;
}

void check_driver(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  if (status == CUDA_ERROR_OUT_OF_MEMORY) check(cudaErrorMemoryAllocation, what);
  throw CudaError(std::string(what) + ": CUDA driver error " + std::to_string(static_cast<int>(status)));
}

/// Whether another process that ends may be in the way: its memory, or its right to be alone on the device.
bool may_pass(cudaError_t status) {
  return status == cudaErrorMemoryAllocation || status == cudaErrorDevicesUnavailable;
}

/// Starts a device. One that other processes hold, which may be about to end, is tried again for a second. Errors: as
/// check().
void start_device(int device) {
  constexpr std::chrono::milliseconds kPatience{1000};
  constexpr std::chrono::milliseconds kPause{50};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  cudaError_t status = cudaInitDevice(device, 0, 0);
  while (may_pass(status) && std::chrono::steady_clock::now() < end) {
    (void)cudaGetLastError();
    std::this_thread::sleep_for(kPause);
    status = cudaInitDevice(device, 0, 0);
  }
  check(status, "start the device");
}

/// The context that the runtime uses on a device, started if it has not been. It is kept for the whole process:
/// ending and starting it again between two engines would take 0.2 s.
CUcontext primary_context(int device) {
  static std::mutex mutex;
  static std::map<int, CUcontext> started;
  const std::lock_guard lock(mutex);
  const auto known = started.find(device);
  if (known != started.end()) return known->second;
  start_device(device);
  CUdevice handle = 0;
  CUcontext context = nullptr;
  check_driver(driver().device_get(&handle, device), "device");
  check_driver(driver().primary_retain(&context, handle), "start the device");
  started.emplace(device, context);
  return context;
}

/// `count` times a clock of a device over `measured`; 1 if the driver does not tell. A call takes the driver half a
/// millisecond.
double speed(int device, double count, cudaDeviceAttr clock, double measured) {
  int khz = 0;
  if (cudaDeviceGetAttribute(&khz, clock, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // not the error of a later launch
  }
  return khz > 0 && count > 0 ? count * khz / measured : 1;
}

}  // namespace

void rethrow_naming(const DeviceContext& context) {
  const std::string device = text("GPU ", shown_gpu(context.device()), " (", context.properties().name, ")");
  const auto what = [](const Error& error) { return text(error.where(), ": ", error.problem()); };
  try {
    throw;
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(device, what(error), std::string(error.hint()));
  } catch (const DeviceError& error) {
    throw DeviceError(device, what(error), std::string(error.hint()));
  } catch (const CudaError& error) {
    throw CudaError(device + ": " + error.what());
  }
}

DeviceGuard::DeviceGuard(int device) {
  check_driver(driver().push(primary_context(device)), "choose device");
}

DeviceGuard::~DeviceGuard() {
  CUcontext popped = nullptr;
  (void)driver().pop(&popped);
}

Allocation allocation_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  const bool is_known = driver().address_range(&begin, &bytes, static_cast<CUdeviceptr>(address)) == CUDA_SUCCESS;
  const Allocation found{.begin = static_cast<std::uintptr_t>(begin), .bytes = bytes};
  return is_known && found.holds(address) ? found : Allocation{.begin = address, .bytes = 1};
}

DeviceContext::DeviceContext(int device)
    : device_(device),
      streams_([] {
        StreamHandle made;
        check(cudaStreamCreateWithFlags(&made.stream, cudaStreamNonBlocking), "stream");
        check(cudaEventCreateWithFlags(&made.point, cudaEventDisableTiming), "event");
        return made;
      }),
      slots_([this] { return pin(kernels::kRingSlotBytes); }),
      tables_([this] { return reinterpret_cast<std::uint32_t*>(pin(kPinnedTableBytes)); }) {
  const DeviceGuard guard(device);
  check(cudaGetDeviceProperties(&properties_, device), "device properties");
  constexpr double kMeasuredArithmetic = 132 * 1.98e6;  // an H200: multiprocessors, kHz
  constexpr double kMeasuredMemory = 3.201e6 * 6144;    // kHz, bits
  arithmetic_ = speed(device, properties_.multiProcessorCount, cudaDevAttrClockRate, kMeasuredArithmetic);
  memory_speed_ = speed(device, properties_.memoryBusWidth, cudaDevAttrMemoryClockRate, kMeasuredMemory);
  tables_.put(tables_.take());  // to pin memory while records are copied takes a millisecond
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;  // lies on the device, is never moved
  wanted.handleTypes = cudaMemHandleTypeNone;
  wanted.location.type = cudaMemLocationTypeDevice;
  wanted.location.id = device;
  check(cudaMemPoolCreate(&pool_, &wanted), "memory pool");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();  // freed memory stays for the next product
  const cudaError_t status = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
  if (status != cudaSuccess) ignore(cudaMemPoolDestroy(pool_));
  check(status, "memory pool");
}

DeviceContext::~DeviceContext() {
  try {
    const DeviceGuard guard(device_);
    streams_.clear([](const StreamHandle& lent) {
      ignore(cudaStreamSynchronize(lent.stream));  // memory freed in its order goes back before the pool does
      ignore(cudaStreamDestroy(lent.stream));
      ignore(cudaEventDestroy(lent.point));
    });
    for (void* page : pages_) ignore(cudaFreeHost(page));
    ignore(cudaMemPoolDestroy(pool_));
  } catch (...) {  // no device to give anything back to
  }
}

std::uint64_t DeviceContext::memory_bytes() const {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "device memory");
  std::uint64_t held = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &held), "memory pool");
  return free_bytes + held;
}

void* DeviceContext::allocate(std::uint64_t bytes, cudaStream_t stream, const char* what) {
  void* data = nullptr;
  cudaError_t status = cudaMallocFromPoolAsync(&data, bytes, pool_, stream);
  if (status == cudaErrorMemoryAllocation) {  // what the pool keeps may lie in pieces that are too small
    (void)cudaGetLastError();
    ignore(cudaStreamSynchronize(stream));
    ignore(cudaMemPoolTrimTo(pool_, 0));
    status = cudaMallocFromPoolAsync(&data, bytes, pool_, stream);
  }
  check(status, what);
  return data;
}

void DeviceContext::release(void* data, cudaStream_t stream) noexcept {
  ignore(cudaFreeAsync(data, stream));
}

void DeviceContext::trim() noexcept {
  ignore(cudaMemPoolTrimTo(pool_, 0));
}

std::byte* DeviceContext::pin(std::uint64_t bytes) {
  const std::lock_guard lock(pages_mutex_);
  pages_.reserve(pages_.size() + 1);
  void* page = nullptr;
  check(cudaHostAlloc(&page, bytes, cudaHostAllocPortable), "pinned buffer");
  pages_.push_back(page);
  return static_cast<std::byte*>(page);
}

}  // namespace spmm::cuda
