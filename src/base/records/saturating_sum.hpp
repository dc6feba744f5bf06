// Adds up blocks of partial products: exact in any order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace spmm {

/// Adds u32 elements to others; what passes 2^32 - 1 stays there. Shapes: both [num_elements], no alignment needed.
inline void add_saturating(std::byte* to, const std::byte* from, std::uint64_t num_elements) {
  for (std::uint64_t e = 0; e < num_elements; ++e, to += sizeof(std::uint32_t), from += sizeof(std::uint32_t)) {
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::memcpy(&x, to, sizeof x);
    std::memcpy(&y, from, sizeof y);
    const std::uint32_t result = x + std::min(y, std::numeric_limits<std::uint32_t>::max() - x);
    std::memcpy(to, &result, sizeof result);
  }
}

}  // namespace spmm
