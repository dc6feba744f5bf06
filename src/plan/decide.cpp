// The way to run a product: backend, kernel, memory; at once or out of core.
#include "plan/choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "plan/need.hpp"
#include "plan/out_of_core.hpp"
#include "plan/registry.hpp"
#include "plan/rule.hpp"
#include "plan/times.hpp"
#include "spmm/error.hpp"

namespace spmm::plan {
namespace {

/// The kernel that was named or that the rule takes; if that one does not fit, the first of the registry that does, or
/// the refusal that asks for the least.
Choice choose_kernel(const Counts& s, const Limits& limits, Backend backend) {
  if (limits.kernel != nullptr) return need(*limits.kernel, s, limits);
  const bool has_hopper = limits.has_dense_tensor();
  const std::string_view first = backend == Backend::cuda ? fastest_kernel(s, has_hopper) : "row-merge";
  Choice best = need(row_of(first), s, limits);
  for (const KernelRow& row : registry()) {
    if (!best.is_refused()) break;
    if (row.backend != backend || !row.is_automatic || row.name == first) continue;
    if ((row.needs_hopper() && !has_hopper) || (row.expansion == Expansion::tiles && !s.tiles.counted)) continue;
    Choice one = need(row, s, limits);
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
  const auto text_of = [](double seconds, const char* where) {  // "0.07 s on the CPU"
    if (seconds == 0) return text("does not fit ", where);
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), "%.2g s ", seconds);
    return text(number.data(), where);
  };
  const double cpu_s = cpu.is_refused() ? 0 : cpu.predicted_s;
  const double cuda_s = cuda.is_refused() ? 0 : cuda.predicted_s;
  const bool takes_cuda = !cuda.is_refused() && (cpu.is_refused() || cuda_s < cpu_s);
  const std::string of_cpu = text_of(cpu_s, "on the CPU");
  const std::string of_cuda = text_of(cuda_s, "with CUDA");
  Choice e = std::move(takes_cuda ? cuda : cpu);
  e.backend = takes_cuda ? Backend::cuda : Backend::cpu;  // also if it is refused
  e.why_backend = text("predicted ", takes_cuda ? of_cuda : of_cpu, ", ", takes_cuda ? of_cpu : of_cuda);
  e.cpu_s = cpu_s;
  e.cuda_s = cuda_s;
  return e;
}

}  // namespace

Choice decide_at_once(const Counts& given, const Limits& limits) {
  const Counts s = given.exact ? given : expected_of_selection(given, limits.selection, limits.rows);
  const Backend wanted = limits.kernel != nullptr ? limits.kernel->backend : limits.backend;
  const Backend backend = wanted == Backend::cuda ? Backend::cuda : Backend::cpu;
  if (backend == Backend::cuda && limits.gpus.empty()) {
    Choice none;
    none.refusal = {.kind = Refusal::Kind::device,
                    .what = "ProductOptions::backend = cuda",
                    .problem = limits.why_no_gpu,
                    .hint = "use ProductOptions::backend = cpu, or check nvidia-smi"};
    return none;
  }
  Choice e = choose_kernel(s, limits, backend);
  e.limits = limits;
  e.gpu_failed = limits.gpu_failed;
  // If no backend was asked for or chosen before, only the CPU can run.
  e.why_backend = !limits.why_backend.empty()    ? limits.why_backend
                  : wanted == Backend::automatic ? limits.why_no_gpu
                                                 : "asked for";
  e.exact = s.exact;
  e.sampled = s.sampled;
  e.expected_pairs = s.num_pairs;
  e.expected_output_blocks = s.num_c_blocks;
  if (backend == Backend::cuda) {
    if (!e.is_refused() && s.exact) cut(e, s, limits);
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
  const Backend backend = limits.kernel != nullptr ? limits.kernel->backend : limits.backend;
  if (backend == Backend::automatic && !limits.gpus.empty()) return decide_on_faster_backend(s, limits);
  Choice e = decide_at_once(s, limits);
  if (!s.exact && e.refusal.lacks_memory()) {  // ranges come one after the other, on one device
    Choice out_of_core = decide_out_of_core(s, limits);
    if (!out_of_core.is_refused()) e = std::move(out_of_core);
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
