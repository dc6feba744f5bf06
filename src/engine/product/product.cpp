// One product: the decision, then the run at once or out of core.
#include "engine/product/product.hpp"

#include <algorithm>
#include <utility>

#include "base/records/saturated_count.hpp"
#include "base/text.hpp"
#include "cpu/backend.hpp"
#include "cuda/backend.hpp"
#include "engine/memory/reserve.hpp"
#include "engine/out_of_core/out_of_core.hpp"
#include "plan/decide.hpp"
#include "plan/registry.hpp"

namespace spmm {
namespace {

/// The kernel that the options name; nothing for "auto".
std::optional<plan::KernelId> wanted_kernel(const ProductOptions& options) {
  if (options.kernel == "auto") return std::nullopt;
  const auto id = plan::kernel_named(options.kernel);
  if (id) return id;
  std::string names = "auto";
  for (const KernelInfo& k : kernel_names()) names += ", " + k.name;
  throw UsageError("ProductOptions::kernel", text("unknown kernel '", options.kernel, "'"), "use one of: " + names);
}

/// Takes over what the product itself knows.
void fill_report(const Inputs& inputs, const ProductStats& stats, const plan::Execution& execution, Report& report) {
  report.a = inputs.a.header();
  report.b = inputs.b.header();
  constexpr std::uint64_t kMostOfHeader = 0xFFFF'FFFFu;
  report.c = {.n = report.a.n,
              .m = report.a.m,
              .num_blocks = static_cast<std::uint32_t>(std::min(stats.num_blocks, kMostOfHeader))};
  report.c_blocks = stats.num_blocks;
  report.plan = execution;
  report.pairs = stats.pairs;
  report.saturated_elements = stats.num_saturated;
  report.num_panels = stats.num_panels;
  report.peak_device_bytes = stats.peak_device_bytes;
  report.device = stats.device;
  if (!stats.shares.empty()) report.plan.devices = stats.shares;
}

/// The decision on exact statistics. What it wants beyond the memory that the product has reserved is taken at once;
/// where other products hold it, the product makes do with its own. Only row-rank asks for so much more than is
/// expected of headers.
plan::Execution decide_within_share(const plan::Statistics& statistics, const plan::Limits& limits, const Run& run) {
  plan::Execution e = plan::decide(statistics, limits);
  if (e.is_refused() || !plan::row_of(e.id).may_outgrow || run.memory == nullptr) return e;
  const std::uint64_t reserved = run.memory->reserved().device;
  if (e.device_need_bytes <= reserved || run.memory->grow_device(e.device_need_bytes - reserved)) return e;
  plan::Limits less = limits;
  less.device->bytes = reserved;
  return plan::decide(statistics, less);
}

}  // namespace

Backend wanted_backend(const ProductOptions& options) {
  const auto id = wanted_kernel(options);
  if (!id) return options.backend;
  const plan::KernelRow& kernel = plan::row_of(*id);
  if (options.backend != Backend::automatic && options.backend != kernel.backend) {
    throw UsageError(
        "ProductOptions::kernel",
        text("kernel '", options.kernel, "' belongs to backend ", backend_name(kernel.backend), ", not ",
             backend_name(options.backend)),
        text("leave ProductOptions::backend out, or use ProductOptions::backend = ", backend_name(kernel.backend)));
  }
  return kernel.backend;
}

void check_shapes(const Source& a, const Source& b) {
  const MatrixHeader& ha = a.header();
  const MatrixHeader& hb = b.header();
  if (ha.n == hb.n && ha.m == hb.m) return;
  const bool are_files = a.identity().has_value() && b.identity().has_value();
  throw ShapeError(text(a.name(), " and ", b.name()),
                   text(are_files ? "header (byte offset 0): " : "", "n = ", ha.n, ", m = ", ha.m,
                        " against n = ", hb.n, ", m = ", hb.m),
                   "multiply matrices of the same n and m");
}

unsigned num_threads(const Options& options, unsigned num_cores) {
  const unsigned of_engine = options.num_threads != 0 ? options.num_threads : num_cores;
  return options.max_threads != 0 ? std::min(options.max_threads, of_engine) : of_engine;
}

plan::Limits product_limits(const plan::Machine& machine, const Options& options) {
  plan::Limits limits = plan::limits_of(machine, num_threads(options, machine.num_cores));
  limits.backend = wanted_backend(options);
  limits.kernel = wanted_kernel(options);
  limits.force = options.force;
  return limits;
}

plan::Execution plan_product(const plan::Statistics& expected, const plan::Limits& limits) {
  plan::Execution execution = plan::decide(expected, limits);
  plan::throw_if_refused(execution);
  return execution;
}

plan::Execution reserve_product(const ProductOperands& operands, const plan::Limits& limits, const Run& run,
                                std::uint64_t least_bytes) {
  plan::Execution execution;
  {
    const auto timing = run.clock.scope(Stage::budget);
    execution = plan_product(operands.expected(), limits);
  }
  reserve_memory(execution, run, least_bytes);
  return execution;
}

std::unique_ptr<cuda::PlannedProduct> plan_device_product(const ProductOperands& operands, const plan::Limits& limits,
                                                          const Run& run) {
  const plan::Execution expected = reserve_product(operands, limits, run);
  if (expected.is_out_of_core()) {
    throw OutOfMemory("a plan", "the product does not fit the memory of the device at once",
                      "raise EngineOptions::memory_limit_bytes, or free device memory");
  }
  const plan::Decide decide = [limits, &run](const plan::Statistics& statistics) {
    return decide_within_share(statistics, limits, run);
  };
  return cuda::plan_product(operands.inputs().a, operands.inputs().b, expected, decide, run);
}

ProductStats multiply_product(const ProductOperands& operands, Output& sink, const plan::Limits& limits,
                              plan::Execution expected, const Run& run, Report& report) {
  const Inputs& inputs = operands.inputs();
  const bool out_of_core = expected.is_out_of_core();
  if (out_of_core && run.arrays != nullptr) inputs.a.read(0, 1, nullptr);  // refuses
  const MultiplyAtOnce at_once = [&](const Inputs& one, Sink& to, plan::Execution& execution) {
    const plan::Limits within = out_of_core ? execution.range_limits : limits;
    const plan::Decide exact = [&](const plan::Statistics& statistics) {
      return decide_within_share(statistics, within, run);
    };
    Run decided = run;
    decided.num_threads = execution.num_threads;
    if (out_of_core) decided.more_devices = {};
    if (execution.backend == Backend::cpu) return cpu::multiply(one.a, one.b, to, execution, exact, decided);
    return cuda::multiply(one.a, one.b, to, execution, exact, decided);
  };
  sink.expect(inputs.a.header().m, 0);
  const ProductStats stats =
      out_of_core ? multiply_out_of_core(inputs, sink, at_once, run, expected) : at_once(inputs, sink, expected);
  inputs.a.check_unchanged();
  inputs.b.check_unchanged();
  fill_report(inputs, stats, expected, report);
  const auto timing = run.clock.scope(Stage::write);
  sink.finish(report.c);
  return stats;
}

}  // namespace spmm
