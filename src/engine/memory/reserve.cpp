// Shares of the memory limit: the product, a result that stays.
#include "engine/memory/reserve.hpp"

#include <algorithm>
#include <limits>

namespace spmm {

void reserve_memory(const Plan& plan, const Run& run, std::uint64_t least_bytes) {
  if (run.memory == nullptr || run.memory->reserved().host != 0) return;
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  const bool out_of_core = plan.scratch_bytes != 0;
  const std::uint64_t host = !out_of_core       ? std::max(plan.host_need_bytes, least_bytes) + run.extra_bytes
                             : run.keeps_result ? plan.host_limit_bytes + run.extra_bytes
                                                : kAll;
  const auto timing = run.clock.scope(Stage::budget);
  run.memory->reserve({.host = host, .device = out_of_core ? kAll : plan.device_need_bytes}, run.cancel);
  if (out_of_core) return;  // on the first device alone
  // In the order of the devices, as every product does: none waits for one that waits for it.
  for (const DeviceUse& use : run.more_devices) {
    use.memory->reserve({.host = 0, .device = plan.device_need_bytes}, run.cancel);
  }
}

void leave_to_result(const plan::Statistics& expected, const Sink& sink, plan::Limits& limits) {
  if (!sink.keeps_records()) return;
  constexpr double kTolerance = 1.0625;  // what is expected is for evenly spread blocks
  const double bytes = kTolerance * expected.num_c_blocks * static_cast<double>(output_record_bytes(expected.m()));
  const std::uint64_t most = limits.host_bytes - limits.host_bytes / 4;
  limits.host_bytes -= bytes < static_cast<double>(most) ? static_cast<std::uint64_t>(bytes) : most;
}

}  // namespace spmm
