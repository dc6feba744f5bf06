// A product takes its part of the engine's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/run/run.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Waits until the other products of the engine leave what this plan needs, and at least `least_bytes` beside
/// run.beside_bytes. The first call of a product counts, before anything is allocated; a later one does nothing.
/// A product in slabs also holds lists and kept results, and sizes them by the limit: it takes everything (but what the
/// plan has left to a result that stays in memory). Any other one on a single device finds its operands still kept,
/// where they are. Errors: Interrupted.
inline void reserve_memory(const Plan& plan, const Source& a, const Source& b, const Run& run,
                           std::uint64_t least_bytes = 0) {
  if (run.memory == nullptr || run.memory->reserved().host != 0) return;
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  const bool in_slabs = plan.a_bands > 1 || plan.b_bands > 1;
  std::vector<SourceIdentity> files;
  if (plan.backend == Backend::cuda && !in_slabs && run.more_devices.empty()) {
    for (const Source* source : {&a, &b}) {
      if (const auto identity = source->identity()) files.push_back(*identity);
    }
  }
  const std::uint64_t host = !in_slabs          ? std::max(plan.host_need_bytes, least_bytes) + run.beside_bytes
                             : run.keeps_result ? plan.host_limit_bytes + run.beside_bytes
                                                : kAll;
  const auto timing = run.clock.scope(Stage::budget);
  run.memory->reserve({.host = host, .device = in_slabs ? kAll : plan.device_need_bytes}, run.cancel, files);
  if (in_slabs) return;  // on the first device alone
  // In the order of the devices, as every product does: none waits for one that waits for it.
  for (const DeviceUse& use : run.more_devices) {
    use.memory->reserve({.host = 0, .device = plan.device_need_bytes}, run.cancel);
  }
}

}  // namespace spmm
