// Exact dot products of 16-bit elements.
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

/// Exact dot product of m elements, m known at run time.
/// Shapes: a, b [m].
__device__ inline std::uint64_t dot(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m) {
  std::uint64_t sum = 0;
  for (std::uint32_t t = 0; t < m; ++t) sum += multiply_exact(a[t], b[t]);
  return sum;
}

}  // namespace spmm::kernels
