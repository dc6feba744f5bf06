// Which device to use, and what this build is.
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/context.hpp"
#include "kernels/check.hpp"
#include "kernels/tiles/launch.hpp"

namespace spmm::cuda {
namespace {

/// Ranges of this library, apart from those of the program that calls it.
nvtxDomainHandle_t nvtx_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("spmm");
  return domain;
}

/// Values: the payload is the bytes that the range moves, if it moves none its pairs.
void push_range(const char* name, const StageWork& work) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  if (work.bytes != 0 || work.pairs != 0) {
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = work.bytes != 0 ? work.bytes : work.pairs;
  }
  nvtxDomainRangePushEx(nvtx_domain(), &range);
}

}  // namespace

std::string build_info() {
  return text(CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10, " for sm_", SPMM_CUDA_ARCHITECTURES);
}

bool may_start(std::string& why_not) {
  if (!visible_gpus().empty()) return true;
  why_not = "no CUDA device";
  return false;
}

int num_devices(std::string& why_not) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count != 0) return count;
  (void)cudaGetLastError();
  why_not = status == cudaSuccess ? "no CUDA device" : text("no usable CUDA device (", cudaGetErrorString(status), ")");
  return 0;
}

std::shared_ptr<DeviceContext> find_device(int wanted, std::string& why_not) {
  const int count = num_devices(why_not);
  if (count == 0) {
    if (wanted >= 0)
      throw DeviceError("EngineOptions::device", why_not, "check nvidia-smi, or use ProductOptions::backend = cpu");
    return nullptr;
  }
  if (wanted >= count) {
    throw DeviceError("EngineOptions::device", text("device ", wanted, " asked for, ", count, " visible"),
                      text("use a number from 0 to ", count - 1, ", or check CUDA_VISIBLE_DEVICES"));
  }
  return std::make_shared<DeviceContext>(wanted >= 0 ? wanted : local_rank().value_or(0) % count);
}

plan::Gpu describe(const DeviceContext& context, bool is_callers_memory) {
  const DeviceGuard guard(context.device());  // its memory, not that of the caller's device
  const cudaDeviceProp& properties = context.properties();
  return {.number = context.device(),
          .name = properties.name,
          .bytes = is_callers_memory ? properties.totalGlobalMem : context.memory_bytes(),
          .has_dense_tensor = kernels::has_dense_tensor(properties.major, properties.minor),
          .arithmetic = context.arithmetic(),
          .memory = context.memory_speed()};
}

void trim(DeviceContext& context) {
  const DeviceGuard guard(context.device());
  context.trim();
}

StageHooks stage_hooks() {
  return {.enter = push_range, .leave = [] { nvtxDomainRangePop(nvtx_domain()); }};
}

}  // namespace spmm::cuda
