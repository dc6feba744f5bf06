// Blocks in registers: a group of lanes holds a product block, each lane some rows of one column.
#pragma once

#include <cstdint>

#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// Adds the products of two words of two u16 each.
__device__ inline void add_word_products(std::uint32_t a, std::uint32_t b, std::uint64_t& sum) {
  sum += std::uint64_t{a & 0xFFFFu} * (b & 0xFFFFu);
  sum += std::uint64_t{a >> 16} * (b >> 16);
}
__device__ inline void add_products(uint2 a, uint2 b, std::uint64_t& sum) {
  add_word_products(a.x, b.x, sum);
  add_word_products(a.y, b.y, sum);
}
__device__ inline void add_products(uint4 a, uint4 b, std::uint64_t& sum) {
  add_products(uint2{a.x, a.y}, uint2{b.x, b.y}, sum);
  add_products(uint2{a.z, a.w}, uint2{b.z, b.w}, sum);
}

/// M contiguous elements (a row of A, a column of transposed B) in registers. M: 4 or a multiple of 8.
template <std::uint32_t M>
struct Line {
  static constexpr std::uint32_t kVectors = M / 8;
  uint4 vectors[kVectors];

  Line() = default;
  __device__ explicit Line(const std::uint16_t* from) {
#pragma unroll
    for (std::uint32_t v = 0; v < kVectors; ++v) vectors[v] = __ldg(reinterpret_cast<const uint4*>(from) + v);
  }
  __device__ std::uint64_t dot(const Line& other) const {
    std::uint64_t sum = 0;
#pragma unroll
    for (std::uint32_t v = 0; v < kVectors; ++v) add_products(vectors[v], other.vectors[v], sum);
    return sum;
  }
};

template <>
struct Line<4> {
  uint2 vector;

  Line() = default;
  __device__ explicit Line(const std::uint16_t* from) : vector(__ldg(reinterpret_cast<const uint2*>(from))) {}
  __device__ std::uint64_t dot(const Line& other) const {
    std::uint64_t sum = 0;
    add_products(vector, other.vector, sum);
    return sum;
  }
};

/// How a group of lanes shares a block of M x M: lane -> column lane % M, rows lane / M, lane / M + kRowStep, ...
/// so that element number lane + x * kLanes is the lane's element x.
template <std::uint32_t M>
struct LaneShare {
  static constexpr std::uint32_t kLanes = M == 4 ? 16 : 32;
  static constexpr std::uint32_t kPerLane = M * M / kLanes;
  static constexpr std::uint32_t kRowStep = kLanes / M;
};

/// Exact dot product of m elements, m known at run time. Shapes: a, b [m].
__device__ inline std::uint64_t dot(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m) {
  std::uint64_t sum = 0;
  for (std::uint32_t t = 0; t < m; ++t) sum += multiply_exact(a[t], b[t]);
  return sum;
}

}  // namespace spmm::kernels
