// A product takes its part of the engine's memory.
#pragma once

#include <limits>

#include "base/run.hpp"
#include "spmm/plan.hpp"

namespace spmm {

/// Waits until the other products of the engine leave what this plan needs; call it once, before anything is allocated.
/// A product in slabs also holds lists and kept results, and sizes them by the limit: it takes everything.
/// Errors: Interrupted.
inline void reserve_memory(const Plan& plan, const Run& run) {
  if (run.memory == nullptr) return;
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  const bool in_slabs = plan.a_bands > 1 || plan.b_bands > 1;
  const auto timing = run.clock.scope(Stage::budget);
  run.memory->reserve({.host = in_slabs ? kAll : plan.host_need_bytes + run.beside_bytes,
                       .device = in_slabs ? kAll : plan.device_need_bytes},
                      run.cancel);
}

}  // namespace spmm
