#include "plan/decide.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/text.hpp"
#include "plan/cpu_shape.hpp"
#include "plan/cuda_shape.hpp"
#include "plan/out_of_core.hpp"
#include "plan/registry.hpp"
#include "plan/rule.hpp"
#include "plan/times.hpp"
#include "spmm/error.hpp"

namespace spmm::plan {
namespace {

Backend wanted_backend(const Limits& limits) {
  return limits.kernel ? row_of(*limits.kernel).backend : limits.backend;
}

/// Why this backend runs. If no backend was requested or chosen, only the CPU can run.
std::string why_backend(const Limits& limits) {
  if (wanted_backend(limits) == Backend::automatic) return limits.why_no_device;
  return limits.why_backend.empty() ? "asked for" : limits.why_backend;
}

Execution shape_of(const KernelRow& kernel, const Problem& p) {
  return kernel.backend == Backend::cuda ? cuda_shape(kernel, p) : cpu_shape(kernel, p);
}

/// The kernel that was named or that the rule takes; if that one does not fit, the first of the registry that does, or
/// the refusal that asks for the least.
Execution shape_of_best(const Problem& p, Backend backend) {
  const auto& [s, limits] = p;
  if (limits.kernel && row_of(*limits.kernel).backend == backend) return shape_of(row_of(*limits.kernel), p);
  const KernelId first = backend == Backend::cuda ? choose_kernel(s, limits.has_dense_tensor()) : KernelId::row_merge;
  Execution best = shape_of(row_of(first), p);
  for (const KernelRow& row : registry()) {
    if (!best.is_refused()) break;
    const bool is_usable = row.backend == backend && row.is_automatic && row.id != first &&
                           (!row.needs_hopper || limits.has_dense_tensor()) &&
                           (row.expansion != Expansion::tiles || s.tiles.counted);
    if (!is_usable) continue;
    Execution one = shape_of(row, p);
    const bool asks_less = one.refusal.lacks_memory() &&
                           (!best.refusal.lacks_memory() || one.refusal.need_bytes < best.refusal.need_bytes);
    if (!one.is_refused() || asks_less) best = std::move(one);
  }
  return best;
}

/// Fills in what a plan says of the decision.
void describe(Execution& e, const Problem& p) {
  const auto& [s, limits] = p;
  e.is_named = limits.kernel.has_value();
  e.gpu_failed = limits.gpu_failed;
  if (limits.compared)
    e.compared = limits.compared;
  else
    e.why_backend = why_backend(limits);
  e.exact = s.exact;
  e.sampled = s.sampled;
  e.expected_pairs = s.num_pairs;
  e.expected_output_blocks = s.num_c_blocks;
}

/// What each device is expected to take.
std::vector<DeviceShare> equal_shares(const Limits& limits) {
  std::vector<DeviceShare> shares;
  const auto add = [&](const Gpu& gpu) {
    shares.push_back({.number = gpu.number, .name = gpu.name, .share = 1.0 / limits.num_devices()});
  };
  add(*limits.device);
  for (const Gpu& other : limits.more_devices) add(other);
  return shares;
}

/// At once, or out of core: ranges come one after the other, on one device.
Execution decide_with_all_devices(const Problem& p) {
  Execution at_once = decide_at_once(p);
  if (p.s.exact || !at_once.refusal.lacks_memory()) return at_once;
  Execution out_of_core = decide_out_of_core(p);
  if (!out_of_core.is_refused()) return out_of_core;
  const std::uint64_t need = out_of_core.refusal.need_bytes;
  if (out_of_core.refusal.what == at_once.refusal.what && need < at_once.refusal.need_bytes)
    at_once.refusal.need_bytes = need;
  return at_once;
}

/// On all devices, or on one where several are not asked for and would not end clearly earlier.
Execution decide_for_backend(const Problem& p) {
  // A margin, not measured: predictions are off by more than that, but alike for both.
  constexpr double kWorthSharing = 0.9;
  Execution shared = decide_with_all_devices(p);
  const Limits& limits = p.limits;
  if (limits.more_devices.empty() || limits.shares_always || wanted_backend(limits) != Backend::cuda) return shared;
  Limits of_one = limits;
  of_one.more_devices.clear();
  Execution alone = decide_with_all_devices({p.s, of_one});
  const bool gains = !shared.is_refused() && !shared.is_out_of_core() && !alone.is_refused() &&
                     shared.predicted_s < kWorthSharing * alone.predicted_s;
  return gains ? shared : alone;
}

/// The backend that ends first.
Execution decide_for_faster_backend(const Problem& p) {
  Limits limits = p.limits;
  limits.backend = Backend::cpu;
  Execution cpu = decide_for_backend({p.s, limits});
  limits.backend = Backend::cuda;
  Execution cuda = decide_for_backend({p.s, limits});
  cpu.backend = Backend::cpu;  // also if it is refused
  cuda.backend = Backend::cuda;
  const bool takes_cuda = !cuda.is_refused() && (cpu.is_refused() || cuda.predicted_s < cpu.predicted_s);
  Execution e = takes_cuda ? cuda : cpu;
  e.compared = {.cuda_s = cuda.is_refused() ? 0 : cuda.predicted_s, .cpu_s = cpu.is_refused() ? 0 : cpu.predicted_s};
  return e;
}

}  // namespace

Execution decide_at_once(const Problem& p) {
  const auto& [s, limits] = p;
  const Backend backend = wanted_backend(limits) == Backend::cuda ? Backend::cuda : Backend::cpu;
  if (backend == Backend::cuda && !limits.device) {
    Execution none;
    none.refusal = {.kind = Refusal::Kind::device,
                    .what = "ProductOptions::backend = cuda",
                    .problem = limits.why_no_device,
                    .hint = "use ProductOptions::backend = cpu, or check nvidia-smi"};
    return none;
  }
  Execution e = shape_of_best(p, backend);
  describe(e, p);
  if (!e.is_refused() && s.exact && backend == Backend::cuda) {
    cut_row_panels(e, p);
    want_tile_counts(e, p);
  }
  if (backend == Backend::cuda) e.devices = equal_shares(limits);
  if (!e.is_refused()) e.predicted_s = product_seconds(e, p) + start_seconds(e, limits);
  return e;
}

Execution decide(const Statistics& statistics, const Limits& limits) {
  const Problem p{statistics, limits};
  if (wanted_backend(limits) == Backend::automatic && limits.device) return decide_for_faster_backend(p);
  return decide_for_backend(p);
}

void throw_if_refused(const Execution& execution) {
  const Refusal& r = execution.refusal;
  switch (r.kind) {
    case Refusal::Kind::none:
      return;
    case Refusal::Kind::host_memory:
    case Refusal::Kind::device_memory: {
      const bool is_host = r.kind == Refusal::Kind::host_memory;
      const std::uint64_t have = is_host ? execution.host_limit_bytes : execution.device_limit_bytes;
      throw OutOfMemory(r.what,
                        text("even the smallest panel needs ", human_bytes(r.need_bytes), " (", r.need_bytes,
                             " bytes) and the limit leaves ", human_bytes(have), " (", have, " bytes)"),
                        "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
    }
    case Refusal::Kind::device:
      throw DeviceError(r.what, r.problem, r.hint);
    case Refusal::Kind::usage:
      throw UsageError(r.what, r.problem, r.hint);
  }
}

}  // namespace spmm::plan

namespace spmm {

std::string reason_text(const Plan& plan) {
  if (!plan.compared) return plan.why_backend;
  const auto text_of = [](double seconds, const char* where) {  // "0.07 s on the CPU"
    if (seconds == 0) return text("does not fit ", where);
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), "%.2g s ", seconds);
    return text(number.data(), where);
  };
  const std::string cpu = text_of(plan.compared->cpu_s, "on the CPU");
  const std::string cuda = text_of(plan.compared->cuda_s, "with CUDA");
  return plan.backend == Backend::cuda ? text("predicted ", cuda, ", ", cpu) : text("predicted ", cpu, ", ", cuda);
}

}  // namespace spmm
