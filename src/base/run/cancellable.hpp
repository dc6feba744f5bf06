// Long loops on one thread that notice a cancelled run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/run/run.hpp"

namespace spmm {

/// Elements between two checks: a few nanoseconds each make some milliseconds.
inline constexpr std::uint64_t kElementsPerCheck = 1u << 20;

/// Calls body(begin, end) for consecutive ranges that cover [0, count). Errors: Interrupted, what body throws.
template <class Body>
void for_ranges(const Run& run, std::uint64_t count, const Body& body) {
  for (std::uint64_t begin = 0; begin < count; begin += kElementsPerCheck) {
    run.check_cancelled();
    body(begin, std::min(count, begin + kElementsPerCheck));
  }
}

}  // namespace spmm
