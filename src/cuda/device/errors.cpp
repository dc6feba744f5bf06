// Errors of one of several devices get its name.
#include "cuda/device/errors.hpp"

#include <string>
#include <utility>

#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "kernels/check.hpp"

namespace spmm::cuda {
namespace {

constexpr const char* kGpu = "GPU ";

/// Problem and hint of an error's text "<where>: <problem>; <hint>", where and problem as one.
std::pair<std::string, std::string> parts_of(const Error& error) {
  const std::string what = error.what();
  const std::size_t border = what.rfind("; ");
  return {what.substr(0, border), border == std::string::npos ? "" : what.substr(border + 2)};
}

template <class Kind>
[[noreturn]] void rethrow(const std::string& device, const Kind& error) {
  if (std::string(error.what()).starts_with(kGpu)) throw;  // named before
  const auto [problem, hint] = parts_of(error);
  throw Kind(device, problem, hint);
}

}  // namespace

void rethrow_naming(const DeviceContext& context) {
  const std::string device = text(kGpu, shown_gpu(context.device()), " (", context.properties().name, ")");
  try {
    throw;
  } catch (const OutOfMemory& error) {
    rethrow(device, error);
  } catch (const DeviceError& error) {
    rethrow(device, error);
  } catch (const CudaError& error) {
    if (std::string(error.what()).starts_with(kGpu)) throw;
    throw CudaError(device + ": " + error.what());
  }
}

}  // namespace spmm::cuda
