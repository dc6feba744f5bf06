// Values that the host waits for.
#include "kernels/blocks/copy_to_host.hpp"
#include "kernels/check.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;

// Grid: one thread per word. Memory: contiguous; whole sectors go over the link together.
__global__ void copy_to_host(const std::uint32_t* from, std::uint32_t count, std::uint32_t* to) {
  const std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x < count) to[x] = from[x];
}

}  // namespace

void launch_copy_to_host(const std::uint32_t* from, std::uint32_t count, std::uint32_t* to, cudaStream_t stream) {
  if (count == 0) return;
  const std::uint32_t threads = count <= 32 ? 32 : kThreads;
  copy_to_host<<<(count - 1) / threads + 1, threads, 0, stream>>>(from, count, to);
  check_launch("copy_to_host");
}

}  // namespace spmm::kernels
