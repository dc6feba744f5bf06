// Launch shape for kernels with one thread per item.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spmm::kernels {

inline constexpr unsigned kItemThreads = 256;
inline constexpr std::uint64_t kMaxItemGrid = 1u << 20;

/// Threads that a multiprocessor of every compiled architecture can hold.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr unsigned kResidentThreads = 1024;
#else
inline constexpr unsigned kResidentThreads = 1536;
#endif

/// CTAs for `count` items; with more items than threads, for_each_item strides over the grid.
inline unsigned item_grid(std::uint64_t count) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>((count + kItemThreads - 1) / kItemThreads, 1, kMaxItemGrid));
}

/// Calls body(x) for every x in [0, count), neighbouring threads on neighbouring items.
template <class Body>
__device__ void for_each_item(std::uint64_t count, Body body) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t x = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; x < count; x += stride) body(x);
}

/// Warps of such a CTA; CTAs with a warp for each of `count` items, which strides over the grid; number of this warp.
inline constexpr unsigned kItemWarps = kItemThreads / 32;
inline unsigned warp_grid(std::uint64_t count) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>((count + kItemWarps - 1) / kItemWarps, 1, kMaxItemGrid));
}
__device__ inline std::uint32_t this_warp() {
  return blockIdx.x * kItemWarps + threadIdx.x / 32;
}

/// Threads for a row of a kernel that takes whole rows: a warp, or a quarter of one if rows are short.
inline constexpr std::uint32_t kFewLanes = 8;
inline std::uint32_t lanes_per_row(std::uint64_t num_blocks, std::uint64_t num_rows) {
  return num_blocks < 2 * kFewLanes * num_rows ? kFewLanes : 32;
}

/// Sets bit x of words in which other threads set bits meanwhile. Bits only get set: a stale read costs one atomic.
__device__ inline void set_bit(std::uint32_t* words, std::uint32_t x) {
  const std::uint32_t bit = 1u << x % 32;
  if ((*static_cast<volatile std::uint32_t*>(words + x / 32) & bit) == 0) atomicOr(words + x / 32, bit);
}

/// First x in [low, high) that is not below, or high. Values: is_below(x) = true up to some x, false from there on.
template <class Number, class IsBelow>
__device__ Number partition_point(Number low, Number high, const IsBelow& is_below) {
#pragma unroll 1  // unrolled, the code of the larger kernels would not fit the instruction cache
  while (low < high) {
    const Number middle = low + (high - low) / 2;
    if (is_below(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// First position in sorted [low, high) whose value is not below `wanted`.
template <class T>
__device__ std::uint64_t lower_bound(const T* sorted, std::uint64_t low, std::uint64_t high, T wanted) {
  return partition_point(low, high, [=](std::uint64_t x) { return sorted[x] < wanted; });
}

/// First position in sorted [low, high) whose value is above `wanted`, which is not the largest of its type.
template <class T>
__device__ std::uint64_t upper_bound(const T* sorted, std::uint64_t low, std::uint64_t high, T wanted) {
  return lower_bound(sorted, low, high, static_cast<T>(wanted + 1));
}

}  // namespace spmm::kernels
