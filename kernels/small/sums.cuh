// Sums of small blocks (m = 1 to 4) in shared memory, and the product of two such blocks by one lane.
#pragma once

#include <cstdint>

#include "kernels/grid.cuh"
#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// Elements of one small block in registers.
template <std::uint32_t M>
struct SmallBlock {
  std::uint32_t elements[M * M];
};

/// Loads block number x of values [num_blocks, M, M].
template <std::uint32_t M>
__device__ inline SmallBlock<M> load_small_block(const std::uint16_t* values, std::uint64_t x) {
  SmallBlock<M> block;
  if constexpr (M % 2 == 0) {
#pragma unroll
    for (std::uint32_t w = 0; w < M * M / 4; ++w) {
      const uint2 four = __ldg(reinterpret_cast<const uint2*>(values) + x * (M * M / 4) + w);
      block.elements[4 * w] = four.x & 0xFFFFu;
      block.elements[4 * w + 1] = four.x >> 16;
      block.elements[4 * w + 2] = four.y & 0xFFFFu;
      block.elements[4 * w + 3] = four.y >> 16;
    }
  } else {
#pragma unroll
    for (std::uint32_t e = 0; e < M * M; ++e) block.elements[e] = __ldg(values + x * (M * M) + e);
  }
  return block;
}

/// Element (r, c) of a block of A times a block of B, exact. Fits: in 32 bits.
/// Layout: A row-major, B transposed within the block.
template <std::uint32_t M, bool Fits>
__device__ inline auto small_product(const SmallBlock<M>& a, const SmallBlock<M>& b, std::uint32_t r, std::uint32_t c) {
  using Sum = std::conditional_t<Fits || M == 1, std::uint32_t, std::uint64_t>;
  Sum sum = 0;
#pragma unroll
  for (std::uint32_t t = 0; t < M; ++t) sum += Sum{a.elements[r * M + t]} * b.elements[c * M + t];
  return sum;
}

/// Whether the product of two blocks has an element that is not zero.
template <std::uint32_t M>
__device__ inline bool is_small_product(const SmallBlock<M>& a, const SmallBlock<M>& b) {
  bool any = false;
#pragma unroll
  for (std::uint32_t r = 0; r < M; ++r) {
#pragma unroll
    for (std::uint32_t c = 0; c < M; ++c) any |= small_product<M, false>(a, b, r, c) != 0;
  }
  return any;
}

/// Sums of the C blocks of a CTA, or of a warp's row: a 32-bit sum per element and a sticky bit, which a carry out of
/// the sum sets: the element is saturated.
/// Layout: even sides turn the elements of a block by its slot, so that lanes which add to the same element of
/// different blocks meet in few banks.
template <std::uint32_t M>
struct SmallSums {
  static constexpr std::uint32_t kElements = M * M;
  std::uint32_t* sums;       // [slots, M, M], shared
  std::uint32_t* saturated;  // [slots * M * M / 32], shared, a bit per element

  /// Where element e of a slot lies.
  [[nodiscard]] static __device__ std::uint32_t position(std::uint32_t slot, std::uint32_t e) {
    if constexpr (M == 2) return slot * kElements + (e ^ (slot / 8 % kElements));
    if constexpr (M == 4) return slot * kElements + (e ^ (slot / 2 % kElements));
    return slot * kElements + e;
  }

  /// Adds the product of two blocks. Fits: no sum of this block row can leave 32 bits.
  template <bool Fits>
  __device__ void add(std::uint32_t slot, const SmallBlock<M>& a, const SmallBlock<M>& b) const {
#pragma unroll
    for (std::uint32_t r = 0; r < M; ++r) {
#pragma unroll
      for (std::uint32_t c = 0; c < M; ++c) {
        add_at<Fits>(position(slot, r * M + c), small_product<M, Fits>(a, b, r, c));
      }
    }
  }

  /// Element e of a slot.
  template <bool Fits>
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t slot, std::uint32_t e) const {
    const std::uint32_t p = position(slot, e);
    if constexpr (!Fits) {
      if (saturated[p / 32] >> p % 32 & 1) return kMaxVal;
    }
    return sums[p];
  }

  template <bool Fits>
  [[nodiscard]] __device__ bool any(std::uint32_t slot) const {
    std::uint32_t any = 0;
#pragma unroll
    for (std::uint32_t e = 0; e < kElements; ++e) any |= value<Fits>(slot, e);
    return any != 0;
  }

 private:
  template <bool Fits, class Value>
  __device__ void add_at(std::uint32_t p, Value value) const {
    const auto low = static_cast<std::uint32_t>(value);
    if constexpr (Fits) {
      atomicAdd(sums + p, low);  // other lanes and warps add to the same C block
    } else {
      // As above, and the old value shows a carry.
      if (value > kMaxVal || atomicAdd(sums + p, low) > kMaxVal - low) set_bit(saturated, p);
    }
  }
};

}  // namespace spmm::kernels
