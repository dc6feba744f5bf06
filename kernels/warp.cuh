// Sums, least and largest values over a warp, for every architecture.
#pragma once

#include <cstdint>

namespace spmm::kernels {

/// Sum of the values of this lane and those before it.
/// Threads: one whole warp.
__device__ inline std::uint32_t inclusive_warp_sum(std::uint32_t value) {
#pragma unroll
  for (std::uint32_t step = 1; step < 32; step *= 2) {
    const std::uint32_t left = __shfl_up_sync(~0u, value, step);
    if (threadIdx.x % 32 >= step) value += left;
  }
  return value;
}

/// put(x, sum and the values from `begin` up to x) for each x in [begin, end), get(x) being its value; returns sum and
/// all values. Threads: one whole warp.
template <class Get, class Put>
__device__ inline std::uint32_t scan_by_warp(std::uint32_t begin, std::uint32_t end, std::uint32_t sum, const Get& get,
                                             const Put& put) {
#pragma unroll 1
  for (std::uint32_t first = begin; first < end; first += 32) {
    const std::uint32_t x = first + threadIdx.x % 32;
    const std::uint32_t own = x < end ? get(x) : 0;
    const std::uint32_t through = inclusive_warp_sum(own);
    if (x < end) put(x, sum + through - own);
    sum += __shfl_sync(~0u, through, 31);
  }
  return sum;
}

/// Sums over the threads of a CTA: of all, and of those before the calling one.
struct CtaSum {
  std::uint32_t all;
  std::uint32_t before;
};

/// Sums up what the threads have. Shapes: of_warp [num_warps], shared.
/// Threads: all of the CTA; what they have written to shared memory before is there when it returns.
__device__ inline CtaSum cta_sum(std::uint32_t own, std::uint32_t* of_warp, std::uint32_t num_warps) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t through = inclusive_warp_sum(own);
  if (lane == 31) of_warp[warp] = through;
  __syncthreads();  // sums of all warps are known
  const std::uint32_t warps_through = inclusive_warp_sum(lane < num_warps ? of_warp[lane] : 0);
  const std::uint32_t before = __shfl_sync(~0u, warps_through, warp == 0 ? 0 : warp - 1);
  return {.all = __shfl_sync(~0u, warps_through, 31), .before = (warp == 0 ? 0 : before) + through - own};
}

/// First position in sorted [begin, end) whose value is not below `wanted`, by a probe of each lane of a group at a
/// time. Threads: a whole warp, in groups of `lanes` (a power of two); those of a group with the same arguments.
__device__ inline std::uint32_t warp_lower_bound(const std::uint32_t* sorted, std::uint32_t begin, std::uint32_t end,
                                                 std::uint32_t wanted, std::uint32_t lanes = 32) {
  const std::uint32_t first_lane = threadIdx.x % 32 / lanes * lanes;
  while (__any_sync(~0u, begin != end)) {
    const std::uint32_t piece = (end - begin + lanes - 1) / lanes;  // a lane looks at the last value of one
    const std::uint32_t probe = begin + threadIdx.x % lanes * piece + piece - 1;
    const bool is_below = begin != end && probe < end && sorted[probe] < wanted;
    const std::uint32_t below = __ballot_sync(~0u, is_below) >> first_lane << (32 - lanes);  // of the group
    begin = min(end, begin + static_cast<std::uint32_t>(__popc(below)) * piece);
    end = piece <= 1 ? begin : min(end, begin + piece);
  }
  return begin;
}

/// The values of the warp combined, on all lanes: their sum, the least and the largest one.
/// Threads: one whole warp.
template <class T, class Combine>
__device__ T warp_reduce(T value, const Combine& combine) {
#pragma unroll
  for (std::uint32_t step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(~0u, value, step));
  return value;
}
template <class T>
__device__ T warp_total(T value) {
  return warp_reduce(value, [](T x, T y) { return x + y; });
}
template <class T>
__device__ T warp_min(T value) {
  return warp_reduce(value, [](T x, T y) { return min(x, y); });
}
template <class T>
__device__ T warp_max(T value) {
  return warp_reduce(value, [](T x, T y) { return max(x, y); });
}

/// Raises *most to the largest value of the CTA: one atomic for each CTA that raises it, since the atomics of all warps
/// that start together would wait for each other.
/// Threads: all of the CTA.
template <class T>
__device__ void raise_max(T* most, T value) {
  __shared__ T of_cta;
  if (threadIdx.x == 0) of_cta = 0;  // the same thread has read the value of a call before
  value = warp_max(value);
  __syncthreads();                                                  // it is clear
  if (threadIdx.x % 32 == 0) atomicMax(&of_cta, value);             // one of each warp
  __syncthreads();                                                  // it is complete
  if (threadIdx.x == 0 && of_cta > *most) atomicMax(most, of_cta);  // it only grows: a stale read costs one atomic
}

}  // namespace spmm::kernels
