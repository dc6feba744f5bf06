// Counts the elements of a result that are at the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "spmm/saturate.hpp"

namespace spmm {

/// Elements of whole output records that are kMaxVal. An index is never that large: a matrix has at most 2^32 - 1 block
/// rows and columns, which count from 0. Threads: any.
std::uint64_t count_saturated(std::span<const std::byte> records);

/// The most terms whose sum cannot reach kMaxVal, of operands without larger elements than these.
constexpr std::uint64_t sure_terms(std::uint32_t largest_a, std::uint32_t largest_b) {
  const std::uint64_t largest = std::uint64_t{largest_a} * largest_b;
  return largest == 0 ? std::numeric_limits<std::uint64_t>::max() : (kMaxVal - 1) / largest;
}

}  // namespace spmm
