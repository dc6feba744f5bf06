// u16 -> double and double -> saturated u32, around a library product in doubles.
#include "kernels/check.hpp"
#include "kernels/dense/launch.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per element, striding over the grid if there are more.
// Work: neighbouring threads take neighbouring elements.
// Memory: 10 bytes per element.
__global__ void widen_to_f64(const std::uint16_t* from, std::uint64_t count, double* to) {
  for_each_item(count, [&](std::uint64_t x) { to[x] = from[x]; });
}

// Grid: as widen_to_f64.
// Work: as widen_to_f64.
// Memory: 12 bytes per element, 16 with merge.
__global__ void saturate_f64(const double* from, std::uint64_t count, bool merge, std::uint32_t* to) {
  for_each_item(count, [&](std::uint64_t x) {
    const std::uint32_t value = saturate(static_cast<std::uint64_t>(from[x]));
    to[x] = merge ? saturating_add(to[x], value) : value;
  });
}

}  // namespace

void launch_widen_to_f64(const std::uint16_t* from, std::uint64_t count, double* to, cudaStream_t stream) {
  widen_to_f64<<<item_grid(count), kItemThreads, 0, stream>>>(from, count, to);
  check_launch("widen_to_f64");
}

void launch_saturate_f64(const double* from, std::uint64_t count, bool merge, std::uint32_t* to, cudaStream_t stream) {
  saturate_f64<<<item_grid(count), kItemThreads, 0, stream>>>(from, count, merge, to);
  check_launch("saturate_f64");
}

}  // namespace spmm::kernels
