// Device runs of dense products: operands uploaded, one run that is not timed, runs between events, C downloaded.
#include <algorithm>
#include <functional>
#include <memory>

#include "base/text.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/raii.hpp"
#include "kernels/dense/launch.hpp"
#include "spmm/error.hpp"
#include "tools/dense/dense.hpp"

namespace spmm::dense {
namespace {

using cuda::DeviceBuffer;

kernels::DenseLaunch make_launch(const Request& request) {
  if (request.kernel == "global") return kernels::dense_global(request.type, request.shape, request.tile);
  if (request.kernel == "tiled") return kernels::dense_tiled(request.type, request.shape, request.tile);
  if (request.kernel == "tiled-two") return kernels::dense_tiled_two(request.type, request.shape, request.tile);
  return kernels::dense_register(request.type, request.shape);
}

/// One run that is not timed, then the timed ones. Operands that would stay in L2 are driven out of it between runs.
std::vector<double> time_runs(const std::function<void()>& run_once, unsigned num_runs, std::uint64_t operand_bytes,
                              cuda::DeviceMemory& memory, const cuda::Stream& stream) {
  run_once();
  stream.synchronize();
  if (num_runs == 0) return {};
  int device = 0;
  int l2_bytes = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "device properties");
  const auto l2 = static_cast<std::uint64_t>(std::max(0, l2_bytes));
  const DeviceBuffer<std::byte> scratch(memory, operand_bytes <= l2 ? 2 * l2 : 0, "scratch");
  const cuda::Event start(true);
  const cuda::Event stop(true);
  std::vector<double> run_ms;
  for (unsigned run = 0; run < num_runs; ++run) {
    if (scratch.size() != 0) {
      check(cudaMemsetAsync(scratch.data(), static_cast<int>(run % 256), scratch.size(), stream.get()), "clear L2");
    }
    start.record(stream);
    run_once();
    stop.record(stream);
    stop.synchronize();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.get(), stop.get()), "event");
    run_ms.push_back(static_cast<double>(ms));
  }
  return run_ms;
}

}  // namespace

std::vector<KernelInfo> device_kernels() {
  const std::vector<unsigned> tiles = {32, 16, 8};
  return {
      {.name = "global", .what = "one thread per element, operands from global memory", .tiles = tiles},
      {.name = "tiled", .what = "tiles in shared memory, one element per thread", .tiles = tiles},
      {.name = "tiled-two", .what = "each tile of A against two tiles of B: two elements per thread", .tiles = tiles},
      {.name = "register", .what = "8 x 8 elements per thread in registers, two stages of shared memory", .tiles = {}},
  };
}

Measurement multiply_on_device(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                               std::span<std::byte> c) {
  std::string why_not;
  const std::shared_ptr<cuda::DeviceContext> context = cuda::find_device(-1, why_not);
  if (!context) throw DeviceError("kernel " + request.kernel, why_not, "check nvidia-smi, or use host-naive");
  const cuda::DeviceGuard guard(context->device());
  const cuda::Stream stream(*context);  // waits for what is on its way when it goes
  cuda::DeviceMemory memory(stream, UINT64_MAX);
  const auto upload = [&](std::span<const std::byte> from, const char* what) {
    DeviceBuffer<std::byte> to(memory, from.size(), what);
    cuda::copy_async(to.data(), from.data(), from.size(), stream);
    stream.synchronize();
    return to;
  };
  try {
    const DeviceBuffer<std::byte> on_a = upload(a, "A");
    const DeviceBuffer<std::byte> on_b = upload(b, "B");
    const DeviceBuffer<std::byte> on_c(memory, c.size(), "C");
    const kernels::DenseLaunch launch = make_launch(request);
    const auto run_once = [&] {
      launch_dense(launch, request.shape, on_a.data(), on_b.data(), on_c.data(), stream.get());
    };
    Measurement measurement{.run_ms = time_runs(run_once, request.runs, a.size() + b.size(), memory, stream),
                            .resources = kernels::dense_resources(launch),
                            .device = context->properties().name};
    cuda::copy_async(c.data(), on_c.data(), c.size(), stream);
    stream.synchronize();
    return measurement;
  } catch (const OutOfMemory&) {
    throw OutOfMemory("kernel " + request.kernel,
                      text("operands and result of ", request.shape.rows, " x ", request.shape.inner, " x ",
                           request.shape.cols, " do not fit the memory of ", context->properties().name),
                      "multiply smaller matrices, or free memory on the device");
  }
}

}  // namespace spmm::dense
