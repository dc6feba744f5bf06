// Linked instead of the device runs in a build without CUDA.
#include "spmm/error.hpp"
#include "tools/dense/dense.hpp"

namespace spmm::dense {

std::vector<KernelInfo> device_kernels() {
  return {};
}

Measurement multiply_on_device(const Request& request, std::span<const std::byte>, std::span<const std::byte>,
                               std::span<std::byte>) {
  throw DeviceError("kernel " + request.kernel, "this program was built without CUDA",
                    "install the CUDA toolkit and build again, or use host-naive");
}

}  // namespace spmm::dense
