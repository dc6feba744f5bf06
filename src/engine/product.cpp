// One product: which backend and kernel, the plan, the run in slabs where it does not fit at once.
#include "engine/product.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cpu/cpu_backend.hpp"
#include "cuda/cuda_backend.hpp"
#include "engine/out_of_core.hpp"
#include "plan/planner.hpp"

namespace spmm {
namespace {

constexpr const char* kDefaultCudaKernel = "auto";  // chosen from exact pair counts once the operands are sorted

/// Backend and kernel of a product, and why.
struct Choice {
  Backend backend = Backend::cpu;
  std::string kernel;
  std::string reason;
};

const KernelInfo* find_kernel(const std::string& name) {
  const auto& all = kernel_names();
  const auto found = std::find_if(all.begin(), all.end(), [&](const KernelInfo& k) { return k.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Choice choose(const plan::Machine& machine, const Options& options) {
  const Backend wanted = wanted_backend(options);
  const bool named_kernel = options.kernel != "auto";
  if (wanted != Backend::cpu && !machine.gpus.empty()) {
    return {.backend = Backend::cuda,
            .kernel = named_kernel ? options.kernel : kDefaultCudaKernel,
            .reason = wanted == Backend::automatic ? "a CUDA device is usable" : "asked for"};
  }
  return {.backend = Backend::cpu,
          .kernel = named_kernel ? options.kernel : cpu::default_kernel(),
          .reason = wanted == Backend::cpu ? "asked for" : machine.why_no_gpu};
}

/// reserved_bytes of the host's limit are taken by something else.
Plan make_plan(const MatrixHeader& a, const MatrixHeader& b, const Choice& choice, const plan::Machine& machine,
               const Options& options, std::uint64_t reserved_bytes) {
  const std::uint64_t host_bytes = machine.host_limit_bytes;
  plan::Limits limits{.host_bytes = host_bytes - std::min(host_bytes, reserved_bytes),
                      .device_bytes = 0,
                      .num_threads = options.num_threads != 0 ? options.num_threads : machine.num_cores,
                      .has_dense_tensor = false};
  if (choice.backend == Backend::cpu) {
    Plan plan = plan::plan_cpu(a, b, choice.kernel, choice.reason, limits,
                               [&](const Plan& p) { return cpu::need_bytes(a, b, p); });
    plan.expected_kernels = cpu::expected_kernels(a, b, plan);
    return plan;
  }
  const plan::Gpu& gpu = machine.gpus.front();
  limits.has_dense_tensor = gpu.has_dense_tensor;
  limits.device_bytes = gpu.limit_bytes;
  return plan::plan_cuda(a, b, choice.kernel, choice.reason, limits);
}

}  // namespace

Backend wanted_backend(const ProductOptions& options) {
  if (options.kernel == "auto") return options.backend;
  const KernelInfo* kernel = find_kernel(options.kernel);
  if (kernel == nullptr) {
    std::string names = "auto";
    for (const KernelInfo& k : kernel_names()) names += ", " + k.name;
    throw UsageError("--kernel", text("unknown kernel '", options.kernel, "'"), "use one of: " + names);
  }
  if (options.backend != Backend::automatic && options.backend != kernel->backend) {
    throw UsageError("--kernel",
                     text("kernel '", options.kernel, "' belongs to backend ", backend_name(kernel->backend), ", not ",
                          backend_name(options.backend)),
                     text("leave --backend out, or use --backend ", backend_name(kernel->backend)));
  }
  return kernel->backend;
}

void check_shapes(const Source& a, const Source& b) {
  const MatrixHeader& ha = a.header();
  const MatrixHeader& hb = b.header();
  if (ha.n == hb.n && ha.m == hb.m) return;
  throw ShapeError(text(a.name(), " and ", b.name()),
                   text("header (byte offset 0): n = ", ha.n, ", m = ", ha.m, " against n = ", hb.n, ", m = ", hb.m),
                   "multiply matrices of the same n and m");
}

Plan plan_product(const MatrixHeader& a, const MatrixHeader& b, const plan::Machine& machine, const Options& options) {
  const Choice choice = choose(machine, options);
  return plan_with_bands(a, b,
                         [&](const MatrixHeader& band_a, const MatrixHeader& band_b, std::uint64_t reserved_bytes) {
                           return make_plan(band_a, band_b, choice, machine, options, reserved_bytes);
                         });
}

ProductStats multiply_product(const Source& a, const Source& b, Sink& sink, const plan::Machine& machine,
                              const Options& options, const Run& run, Report& report) {
  check_shapes(a, b);
  const Choice choice = choose(machine, options);
  const auto plan_band = [&](const MatrixHeader& band_a, const MatrixHeader& band_b, std::uint64_t reserved_bytes) {
    const auto timing = run.clock.scope(Stage::budget);
    return make_plan(band_a, band_b, choice, machine, options, reserved_bytes);
  };
  const auto run_band = [&](const Source& band_a, const Source& band_b, Sink& to, const Plan& plan) {
    Run planned = run;
    planned.num_threads = plan.num_threads;
    return choice.backend == Backend::cuda ? cuda::multiply(band_a, band_b, to, plan, options.force, planned)
                                           : cpu::multiply(band_a, band_b, to, plan, planned);
  };
  const ProductStats stats = multiply_with_bands(a, b, sink, plan_band, run_band, run, report.plan);
  a.check_unchanged();
  b.check_unchanged();
  report.a = a.header();
  report.b = b.header();
  report.c = {.n = report.a.n, .m = report.a.m, .num_blocks = static_cast<std::uint32_t>(stats.num_blocks)};
  report.pairs = stats.pairs;
  report.num_panels = stats.num_panels;
  report.peak_device_bytes = stats.peak_device_bytes;
  report.device = stats.device;
  if (!stats.kernel.empty()) report.plan.kernel = stats.kernel;
  if (!stats.reason.empty()) report.plan.reason = stats.reason;
  const auto timing = run.clock.scope(Stage::write);
  sink.finish(report.c);
  return stats;
}

}  // namespace spmm
