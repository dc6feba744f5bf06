// What is checked and noted of a product, and the memory that it takes.
#include "engine/product.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/memory/machine_memory.hpp"
#include "base/records/head.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cpu/simd/isa.hpp"
#include "io/factor_source.hpp"
#include "plan/choice.hpp"
#include "plan/registry.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

/// The kernel that the options name; null for "auto".
const plan::KernelRow* wanted_kernel(const ProductOptions& options) {
  if (options.kernel == "auto") return nullptr;
  if (const plan::KernelRow* const kernel = plan::kernel_named(options.kernel)) return kernel;
  std::string names = "auto";
  for (const KernelInfo& k : kernel_names()) names += ", " + k.name;
  throw UsageError("ProductOptions::kernel", text("unknown kernel '", options.kernel, "'"), "use one of: " + names);
}

constexpr std::uint64_t kSearchedBytes = std::uint64_t{1} << 30;  // for the first saturated element: some 0.1 s
constexpr std::uint64_t kReadBytes = 1u << 20;

/// ", the first at row 3, column 5"; empty where the sink does not give records back, or it is far behind.
std::string first_saturated(const Report& report, Sink& sink) {
  const std::uint64_t m = report.c.m;
  const std::uint64_t record = output_record_bytes(report.c.m);
  const std::uint64_t end = std::min(report.c_blocks, kSearchedBytes / record);
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kReadBytes / record);
  std::vector<std::byte> records(at_once * record);
  for (std::uint64_t first = 0; first < end; first += at_once) {
    const std::uint64_t count = std::min(at_once, end - first);
    if (!sink.read_back(first, count, records.data())) return {};
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::byte* const block = records.data() + x * record;
      if (count_saturated({block, record}) == 0) continue;
      std::uint64_t e = 0;
      while (count_saturated({block + kIndexBytes + e * sizeof kMaxVal, sizeof kMaxVal}) == 0) ++e;
      const BlockIndex at = read_index(block);
      return text(", the first at row ", at.i * m + e / m, ", column ", at.j * m + e % m);
    }
  }
  return {};
}

}  // namespace

Inputs as_multiplied(const Source& a, const Source& b, const ProductOptions& options, const Run& run) {
  const std::uint32_t nb = a.header().blocks_per_side();
  const RowRange rows = checked_rows(options.rows, nb);
  std::shared_ptr<const Source> own_a;
  std::shared_ptr<const Source> own_b;
  if (options.transpose_a || !rows.covers(nb)) own_a = io::make_factor_source(a, options.transpose_a, rows, run);
  if (options.transpose_b) {
    own_b = io::make_factor_source(b, true, checked_rows({}, b.header().blocks_per_side()), run);
  }
  return {.a = own_a ? *own_a : a,
          .b = own_b ? *own_b : b,
          .num_rows = rows.end - rows.first,
          .own_a = own_a,
          .own_b = own_b};
}

void describe_operands(const MatrixHeader& a, const ProductOptions& options, Plan& plan) {
  plan.transpose_a = options.transpose_a;
  plan.transpose_b = options.transpose_b;
  plan.rows = checked_rows(options.rows, a.blocks_per_side());
}

void ProductRecord::close() {
  for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s] = clock.totals(static_cast<Stage>(s));
  report.stages[static_cast<std::size_t>(Stage::write)].bytes =
      kHeaderBytes + report.c_blocks * record_bytes(result_of(report.element_type), report.c.m);
  report.peak_host_bytes = peak_resident_bytes();
  const auto end = std::chrono::steady_clock::now();
  report.total_s = std::chrono::duration<double>(end - start).count();
  if (trace != nullptr) *trace = log->take(log->since_start(end));
}

Backend wanted_backend(const ProductOptions& options) {
  const plan::KernelRow* const kernel = wanted_kernel(options);
  if (kernel == nullptr) return options.backend;
  if (options.backend != Backend::automatic && options.backend != kernel->backend) {
    throw UsageError(
        "ProductOptions::kernel",
        text("kernel '", options.kernel, "' belongs to backend ", backend_name(kernel->backend), ", not ",
             backend_name(options.backend)),
        text("leave ProductOptions::backend out, or use ProductOptions::backend = ", backend_name(kernel->backend)));
  }
  return kernel->backend;
}

void check_shapes(const Source& a, const Source& b) {
  const MatrixHeader& ha = a.header();
  const MatrixHeader& hb = b.header();
  if (ha.n == hb.n && ha.m == hb.m) return;
  const bool are_files = !a.identity().empty() && !b.identity().empty();
  throw ShapeError(text(a.name(), " and ", b.name()),
                   text(are_files ? "header (byte offset 0): " : "", "n = ", ha.n, ", m = ", ha.m,
                        " against n = ", hb.n, ", m = ", hb.m),
                   "multiply matrices of the same n and m");
}

unsigned num_threads(const Options& options, unsigned num_cores) {
  const unsigned of_engine = options.num_threads != 0 ? options.num_threads : num_cores;
  return options.max_threads != 0 ? std::min(options.max_threads, of_engine) : of_engine;
}

plan::Limits product_limits(const Options& options, std::uint64_t host_bytes) {
  const unsigned num_cores = std::max(1u, usable_cores());
  return {.backend = wanted_backend(options),
          .kernel = wanted_kernel(options),
          .force = options.force,
          .selection = options.selection,
          .rows = options.rows,
          .num_threads = num_threads(options, num_cores),
          .num_cores = num_cores,
          .host_bytes = host_bytes,
          .isa = cpu::choose_isa()};
}

void reserve_memory(const plan::Choice& choice, const cuda::DeviceRun& run, std::uint64_t extra_bytes,
                    std::uint64_t end_bytes, bool keeps_result) {
  if (run.memory == nullptr || run.memory->reserved().host != 0) return;
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  const bool out_of_core = choice.is_out_of_core();
  const std::uint64_t host = !out_of_core   ? std::max(choice.host_need_bytes, end_bytes) + extra_bytes
                             : keeps_result ? choice.host_limit_bytes + extra_bytes
                                            : kAll;
  run.memory->reserve({.host = host, .device = out_of_core ? kAll : choice.device_need_bytes}, run.cancel);
  if (out_of_core) return;  // on the first device alone
  // In the order of the devices, as every product does: none waits for one that waits for it.
  for (const cuda::DeviceUse& use : run.more_devices) {
    use.memory->reserve({.host = 0, .device = choice.device_need_bytes}, run.cancel);
  }
}

void fill_report(const Inputs& inputs, const ProductStats& stats, const Plan& plan, Report& report) {
  constexpr std::uint64_t kMostOfHeader = 0xFFFF'FFFFu;
  report.a = inputs.a.header();
  report.b = inputs.b.header();
  report.c = {.n = report.a.n,
              .m = report.a.m,
              .num_blocks = static_cast<std::uint32_t>(std::min(stats.num_blocks, kMostOfHeader))};
  report.c_blocks = stats.num_blocks;
  report.plan = plan;
  report.pairs = stats.pairs;
  report.saturated_elements = stats.num_saturated;
  report.dropped_elements = stats.num_dropped;
  report.num_panels = stats.num_panels;
  report.peak_device_bytes = stats.peak_device_bytes;
  report.device = stats.device;
  if (!stats.shares.empty()) report.plan.devices = stats.shares;
}

void check_saturation(const ProductOptions& options, const Report& report, Sink& sink, const std::string& out) {
  if (options.on_saturation == OnSaturation::report || report.saturated_elements == 0) return;
  throw SaturationError(
      out,
      text(report.saturated_elements, report.saturated_elements == 1 ? " element is" : " elements are",
           " at the limit ", kMaxVal, first_saturated(report, sink)),
      "nothing was written; accept them with ProductOptions::on_saturation = report, or multiply smaller elements");
}

}  // namespace spmm
