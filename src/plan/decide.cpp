// The way to run a product: backend, kernel, memory; at once or out of core.
#include "plan/decide.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/text.hpp"
#include "plan/out_of_core.hpp"
#include "plan/registry.hpp"
#include "plan/times.hpp"
#include "spmm/error.hpp"

namespace spmm::plan {
namespace {

Backend wanted_backend(const Limits& limits) {
  return limits.kernel != nullptr ? limits.kernel->backend : limits.backend;
}

/// The kernel that was named or that the rule takes; if that one does not fit, the first of the registry that does, or
/// the refusal that asks for the least.
Choice shape_of_best(const Counts& s, const Limits& limits, Backend backend) {
  const auto shape_of = [&](const KernelRow& row) {
    return backend == Backend::cuda ? cuda_shape(row, s, limits) : cpu_shape(row, s, limits);
  };
  if (limits.kernel != nullptr) return shape_of(*limits.kernel);
  const auto of_cpu = [](const KernelRow& row) { return row.backend == Backend::cpu; };
  const KernelRow& first = backend == Backend::cuda ? choose_kernel(s, limits.has_dense_tensor())
                                                    : *std::ranges::find_if(registry(), of_cpu);
  Choice best = shape_of(first);
  for (const KernelRow& row : registry()) {
    if (!best.is_refused()) break;
    const bool is_usable = row.backend == backend && row.is_automatic && &row != &first &&
                           (!row.needs_hopper || limits.has_dense_tensor()) &&
                           (row.expansion != Expansion::tiles || s.tiles.counted);
    if (!is_usable) continue;
    Choice one = shape_of(row);
    const bool asks_less = one.refusal.lacks_memory() &&
                           (!best.refusal.lacks_memory() || one.refusal.need_bytes < best.refusal.need_bytes);
    if (!one.is_refused() || asks_less) best = std::move(one);
  }
  return best;
}

/// The backend that ends first.
Choice decide_on_faster_backend(const Counts& s, Limits limits) {
  limits.backend = Backend::cpu;
  Choice cpu = decide(s, limits);
  limits.backend = Backend::cuda;
  Choice cuda = decide(s, limits);
  cpu.backend = Backend::cpu;  // also if it is refused
  cuda.backend = Backend::cuda;
  const BackendTimes times{.cuda_s = cuda.is_refused() ? 0 : cuda.predicted_s,
                           .cpu_s = cpu.is_refused() ? 0 : cpu.predicted_s};
  const bool takes_cuda = !cuda.is_refused() && (cpu.is_refused() || cuda.predicted_s < cpu.predicted_s);
  Choice e = std::move(takes_cuda ? cuda : cpu);
  e.compared = times;
  return e;
}

}  // namespace

Choice decide_at_once(const Counts& given, const Limits& limits) {
  Counts expected;
  if (!given.exact) expected = expected_of_selection(given, limits.selection, limits.rows);
  const Counts& s = given.exact ? given : expected;
  const Backend wanted = wanted_backend(limits);
  const Backend backend = wanted == Backend::cuda ? Backend::cuda : Backend::cpu;
  if (backend == Backend::cuda && limits.gpus.empty()) {
    Choice none;
    none.refusal = {.kind = Refusal::Kind::device,
                    .what = "ProductOptions::backend = cuda",
                    .problem = limits.why_no_gpu,
                    .hint = "use ProductOptions::backend = cpu, or check nvidia-smi"};
    return none;
  }
  Choice e = shape_of_best(s, limits, backend);
  e.limits = limits;
  e.is_named = limits.kernel != nullptr;
  e.gpu_failed = limits.gpu_failed;
  e.compared = limits.compared;
  if (!e.compared) {  // if no backend was requested or chosen, only the CPU can run
    e.why_backend = wanted == Backend::automatic ? limits.why_no_gpu : "asked for";
  }
  e.exact = s.exact;
  e.sampled = s.sampled;
  e.expected_pairs = s.num_pairs;
  e.expected_output_blocks = s.num_c_blocks;
  if (backend == Backend::cuda) {
    if (!e.is_refused() && s.exact) cut_row_panels(e, s, limits);
    for (const Gpu& gpu : limits.gpus) {
      e.devices.push_back({.number = gpu.number, .name = gpu.name, .share = 1.0 / limits.num_gpus()});
    }
  }
  if (!e.is_refused()) e.predicted_s = product_seconds(e, s, limits) + start_seconds(e, limits);
  return e;
}

Choice decide(const Counts& s, const Limits& limits) {
  // A margin, not measured: predictions are off by more than that, but alike for both.
  constexpr double kWorthSharing = 0.9;
  const Backend backend = wanted_backend(limits);
  if (backend == Backend::automatic && !limits.gpus.empty()) return decide_on_faster_backend(s, limits);
  Choice e = decide_at_once(s, limits);
  if (!s.exact && e.refusal.lacks_memory()) {  // ranges come one after the other, on one device
    Choice out_of_core = decide_out_of_core(s, limits);
    const std::uint64_t need = out_of_core.refusal.need_bytes;
    if (!out_of_core.is_refused()) {
      e = std::move(out_of_core);
    } else if (out_of_core.refusal.what == e.refusal.what && need < e.refusal.need_bytes) {
      e.refusal.need_bytes = need;
    }
  }
  if (backend != Backend::cuda || limits.num_gpus() < 2 || limits.shares_always) return e;
  // Several devices are not asked for: they must end clearly earlier than one.
  Limits of_one = limits;
  of_one.gpus.resize(1);
  Choice alone = decide(s, of_one);
  const bool gains = !e.is_refused() && !e.is_out_of_core() && !alone.is_refused() &&
                     e.predicted_s < kWorthSharing * alone.predicted_s;
  return gains ? e : alone;
}

Counts expected_counts(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t num_rows) {
  Counts s{.a = a, .b = b};
  const double nb = s.nb();
  if (nb == 0) return s;
  const std::uint32_t rows = num_rows == 0 ? s.nb() : std::min(num_rows, s.nb());
  const double places = rows * nb;  // of C blocks, and of blocks of A
  s.a_rows = std::min(a.num_blocks, rows);
  s.b_rows = std::min(b.num_blocks, s.nb());
  s.num_pairs = double(a.num_blocks) * double(b.num_blocks) / nb;
  // A C block exists unless all nb inner positions miss.
  const double hit = (double(a.num_blocks) / places) * (double(b.num_blocks) / (nb * nb));
  s.num_c_blocks = hit >= 1 ? places : places * -std::expm1(nb * std::log1p(-hit));
  return s;
}

Counts expected_of_selection(Counts s, const Selection& selection, RowRange rows) {
  if (selection.upper_triangle && s.nb() != 0) {
    const double middle = (double(std::min(rows.first, s.nb())) + std::min(rows.end, s.nb())) / 2;
    s.num_pairs *= 1 - middle / s.nb();
    s.num_c_blocks *= 1 - middle / s.nb();
  }
  if (selection.keep != 0) {
    s.num_c_blocks = std::min(s.num_c_blocks, static_cast<double>(s.a_rows) * s.m() * selection.keep);
  }
  return s;
}

Counts expected_of_rows(MatrixHeader a, const MatrixHeader& b, RowRange rows) {
  const std::uint32_t nb = a.blocks_per_side();
  if (nb == 0 || rows.covers(nb)) return expected_counts(a, b);
  const std::uint32_t num_rows = std::min(rows.end, nb) - std::min({rows.first, rows.end, nb});
  a.num_blocks = static_cast<std::uint32_t>(std::ceil(double(a.num_blocks) * num_rows / nb));
  return expected_counts(a, b, num_rows);
}

void throw_if_refused(const Choice& choice) {
  const Refusal& r = choice.refusal;
  switch (r.kind) {
    case Refusal::Kind::none:
      return;
    case Refusal::Kind::host_memory:
    case Refusal::Kind::device_memory: {
      const bool is_host = r.kind == Refusal::Kind::host_memory;
      const std::uint64_t have = is_host ? choice.host_limit_bytes : choice.device_limit_bytes;
      throw OutOfMemory(r.what,
                        text("the product needs ", is_host ? "a memory limit of " : "", human_bytes(r.need_bytes), " (",
                             r.need_bytes, " bytes), the limit is ", human_bytes(have), " (", have, " bytes)"),
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
