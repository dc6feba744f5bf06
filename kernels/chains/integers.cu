// Chains of integers, modulo 2^64; those of u16 saturate.
#include <algorithm>
#include <type_traits>

#include "kernels/chains/grid.cuh"
#include "kernels/chains/multiply.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per element, at most kCtas CTAs.
// Work: the largest absolute value of a thread, then of a warp.
// Memory: contiguous.
constexpr unsigned kCtas = 4096;
template <class T>
__global__ void __launch_bounds__(kItemThreads)
    find_largest(const T* values, std::uint64_t count, unsigned long long* largest) {
  unsigned long long most = 0;
  for_each_item(count, [&](std::uint64_t x) {
    const auto value = static_cast<long long>(values[x]);
    const auto bits = static_cast<unsigned long long>(value);
    most = max(most, value < 0 ? 0 - bits : bits);
  });
  for (unsigned step = 16; step != 0; step /= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
  if (threadIdx.x % 32 == 0) atomicMax(largest, most);
}

}  // namespace

void launch_find_largest(ElementType type, const void* values, std::uint64_t count, unsigned long long* largest,
                         cudaStream_t stream) {
  if (count == 0) return;
  with_element_type(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      launch_ctas(find_largest<T>, std::min(kCtas, item_grid(count)), 0, stream, "find_largest",
                  static_cast<const T*>(values), count, largest);
    }
  });
}

template void multiply_chains<std::uint16_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int8_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::uint8_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int16_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int32_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::uint32_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int64_t>(const ChainsView&, const ChainValues&, cudaStream_t);

}  // namespace spmm::kernels
