// The facade: validate, choose backend and kernel, plan, run, report.
#include "spmm/multiply.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/text.hpp"
#include "cpu/cpu_backend.hpp"
#include "cuda/cuda_backend.hpp"
#include "engine/out_of_core.hpp"
#include "io/paths.hpp"
#include "plan/planner.hpp"
#include "spmm/io.hpp"
#include "verify/sample_verifier.hpp"

namespace spmm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultCudaKernel = "auto";  // chosen from exact pair counts once the operands are sorted
constexpr std::uint64_t kSparePercent = 10;         // of free memory is left to others where no limit was given

/// Backend, kernel and device of a run, and why.
struct Choice {
  Backend backend = Backend::cpu;
  std::string kernel;
  std::string reason;
  int device = 0;
  std::uint64_t device_free_bytes = 0;
  bool has_dense_tensor = false;
};

unsigned num_threads(const Options& options) {
  return options.num_threads != 0 ? options.num_threads : usable_cores();
}

const KernelInfo* find_kernel(const std::string& name) {
  const auto& all = kernel_names();
  const auto found = std::find_if(all.begin(), all.end(), [&](const KernelInfo& k) { return k.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The backend the options insist on, by name or through a kernel; automatic where they leave it open.
Backend wanted_backend(const Options& options) {
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

Choice choose(const Options& options) {
  const Backend wanted = wanted_backend(options);
  const bool named_kernel = options.kernel != "auto";
  Choice choice;
  std::string why_not = "asked for";
  if (wanted != Backend::cpu) {
    if (const auto device = cuda::find_device(options.device, why_not)) {
      choice.backend = Backend::cuda;
      choice.kernel = named_kernel ? options.kernel : kDefaultCudaKernel;
      choice.reason = wanted == Backend::automatic ? "a CUDA device is usable" : "asked for";
      choice.device = device->number;
      choice.device_free_bytes = device->free_bytes;
      choice.has_dense_tensor = device->has_dense_tensor;
      return choice;
    }
    if (wanted == Backend::cuda) throw DeviceError("--backend cuda", why_not, "use --backend cpu, or check nvidia-smi");
  }
  choice.kernel = named_kernel ? options.kernel : cpu::default_kernel();
  choice.reason = why_not;
  return choice;
}

void check_shapes(const Source& a, const Source& b) {
  const MatrixHeader& ha = a.header();
  const MatrixHeader& hb = b.header();
  if (ha.n == hb.n && ha.m == hb.m) return;
  throw ShapeError(text(a.name(), " and ", b.name()),
                   text("header (byte offset 0): n = ", ha.n, ", m = ", ha.m, " against n = ", hb.n, ", m = ", hb.m),
                   "multiply matrices of the same n and m");
}

/// reserved_bytes of the host's limit are taken by something else.
Plan make_plan(const MatrixHeader& a, const MatrixHeader& b, const Choice& choice, const Options& options,
               std::uint64_t reserved_bytes) {
  const auto limit = [&](std::uint64_t free_bytes) {
    return options.memory_limit_bytes != 0 ? options.memory_limit_bytes : free_bytes / 100 * (100 - kSparePercent);
  };
  const std::uint64_t host_bytes = limit(available_memory_bytes());
  plan::Limits limits{.host_bytes = host_bytes - std::min(host_bytes, reserved_bytes),
                      .device_bytes = 0,
                      .num_threads = num_threads(options),
                      .has_dense_tensor = choice.has_dense_tensor};
  if (choice.backend == Backend::cpu) {
    Plan plan = plan::plan_cpu(a, b, choice.kernel, choice.reason, limits,
                               [&](const Plan& p) { return cpu::need_bytes(a, b, p); });
    plan.expected_kernels = cpu::expected_kernels(a, b, plan);
    return plan;
  }
  limits.device_bytes = std::min(limit(choice.device_free_bytes), choice.device_free_bytes);
  return plan::plan_cuda(a, b, choice.kernel, choice.reason, limits);
}

/// Runs the planned product from two sources into a sink, up to and including finish(); fills the report.
void multiply_streams(const Source& a, const Source& b, Sink& sink, const Choice& choice, const Options& options,
                      const Run& run, Report& report) {
  check_shapes(a, b);
  const auto plan_band = [&](const MatrixHeader& band_a, const MatrixHeader& band_b, std::uint64_t reserved_bytes) {
    const auto timing = run.clock.scope(Stage::budget);
    return make_plan(band_a, band_b, choice, options, reserved_bytes);
  };
  const auto run_band = [&](const Source& band_a, const Source& band_b, Sink& to, const Plan& plan) {
    Run planned = run;
    planned.num_threads = plan.num_threads;
    return choice.backend == Backend::cuda
               ? cuda::multiply(band_a, band_b, to, plan, choice.device, options.force, planned)
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
}

/// Completes a report when everything is done.
void close_report(Report& report, const StageClock& clock, std::chrono::steady_clock::time_point start) {
  for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s] = clock.totals(static_cast<Stage>(s));
  report.stages[static_cast<std::size_t>(Stage::write)].bytes =
      kHeaderBytes + report.c.num_blocks * output_record_bytes(report.c.m);
  report.peak_host_bytes = peak_resident_bytes();
  report.total_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The options of a product that leaves the memory of the samples to the verifier.
Options beside_samples(Options options, const VerifySettings& settings) {
  if (options.memory_limit_bytes != 0) {
    options.memory_limit_bytes -= std::min(options.memory_limit_bytes - 1, settings.sample_bytes);
  }
  return options;
}

void check_output_is_no_input(const fs::path& input, const fs::path& out) {
  if (!same_file(input, out)) return;
  throw UsageError(out.string(), text("the output is the same file as the input ", input.string()),
                   "give the output another name");
}

}  // namespace

const std::vector<KernelInfo>& kernel_names() {
  static const std::vector<KernelInfo> kNames = [] {
    std::vector<KernelInfo> names = {
        {"rows", Backend::cuda, "per panel pair-list or row-spread, by density"},
        {"row-spread", Backend::cuda, "one CTA per stretch of a result row, sums in shared memory"},
        {"pair-list", Backend::cuda, "pairs sorted by result block, a warp multiplies each block's list"},
        {"dense-tensor", Backend::cuda, "dense byte planes on integer tensor cores (Hopper)"},
        {"dense-tiled", Backend::cuda, "dense copies and register tiles on CUDA cores"},
        {"two-pointer", Backend::cuda, "one CTA per result tile merges two sorted lists in shared memory"},
        {"binary-search", Backend::cuda, "one CTA per result block; each block of A's row is searched in B's column"},
        {"host-driven", Backend::cuda, "the host merges the lists and launches one result block at a time"},
        {"row-merge", Backend::cpu, "threads over block rows, pairs ordered by column, SIMD dot products"},
        {"reference", Backend::cpu, "the definition, one thread, slow"},
    };
    const std::string blas = cpu::build_info();
    if (!blas.empty()) names.insert(names.end() - 1, {"dense-blas", Backend::cpu, "dense panels of doubles, " + blas});
    return names;
  }();
  return kNames;
}

std::string version_string() {
  const std::string cuda = cuda::build_info();
  const std::string blas = cpu::build_info();
  return text("spmm ", SPMM_VERSION, " (git ", SPMM_GIT_REVISION, "), ",
              cuda.empty() ? "built without CUDA, " : "CUDA " + cuda + ", ",
              blas.empty() ? "built without OpenBLAS, " : blas + ", ",
              cuda.empty() ? "backends: cpu" : "backends: cuda cpu");
}

Plan plan_multiply(const fs::path& a, const fs::path& b, const Options& options) {
  const auto source_a = open_file_source(a);
  const auto source_b = open_file_source(b);
  check_shapes(*source_a, *source_b);
  const Choice choice = choose(options);
  const Options beside = beside_samples(options, verify_settings(options.verify_blocks, options.verify_seed,
                                                                 source_a->header().m, options.memory_limit_bytes));
  return plan_with_bands(source_a->header(), source_b->header(),
                         [&](const MatrixHeader& band_a, const MatrixHeader& band_b, std::uint64_t reserved_bytes) {
                           return make_plan(band_a, band_b, choice, beside, reserved_bytes);
                         });
}

Report multiply(const fs::path& a, const fs::path& b, const fs::path& out, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  wanted_backend(options);  // refuses unknown names before any file is opened
  StageClock clock(cuda::stage_hooks());
  const Run run{.clock = clock,
                .on_progress = options.on_progress,
                .cancel = options.cancel,
                .num_threads = num_threads(options)};
  Report report;
  std::unique_ptr<Source> source_a;
  std::unique_ptr<Source> source_b;
  std::unique_ptr<Sink> file;
  Choice choice;
  {
    const auto timing = clock.scope(Stage::open);
    source_a = open_file_source(a);
    source_b = open_file_source(b);
    check_shapes(*source_a, *source_b);
    check_output_is_no_input(a, out);
    check_output_is_no_input(b, out);
    file = open_file_sink(out, source_a->header().m, {.durable = options.durable, .no_clobber = options.no_clobber});
    const std::jthread prefetching([&] {  // a CUDA run takes 0.2 s to start
      source_a->prefetch();
      source_b->prefetch();
    });
    choice = choose(options);
  }
  if (options.verify_blocks == 0) {
    multiply_streams(*source_a, *source_b, *file, choice, options, run, report);
  } else {
    const VerifySettings settings =
        verify_settings(options.verify_blocks, options.verify_seed, source_a->header().m, options.memory_limit_bytes);
    VerifyingSink sink(*file, *source_a, *source_b, settings, run);
    multiply_streams(*source_a, *source_b, sink, choice, beside_samples(options, settings), run, report);
    const auto timing = clock.scope(Stage::verify);
    report.verified_blocks = sink.check(run);
  }
  run.check_cancelled();
  {
    const auto timing = clock.scope(Stage::write);
    file->publish();
  }
  close_report(report, clock, start);
  return report;
}

ProductMatrix multiply(const BlockMatrix& a, const BlockMatrix& b, const Options& options, Report* report) {
  const auto start = std::chrono::steady_clock::now();
  StageClock clock(cuda::stage_hooks());
  const Run run{.clock = clock,
                .on_progress = options.on_progress,
                .cancel = options.cancel,
                .num_threads = num_threads(options)};
  const Choice choice = choose(options);
  const auto source_a = make_memory_source(a, "matrix A");
  const auto source_b = make_memory_source(b, "matrix B");
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  Report local;
  multiply_streams(*source_a, *source_b, *sink, choice, options, run, local);
  sink->publish();
  close_report(local, clock, start);
  if (report != nullptr) *report = local;
  return product;
}

}  // namespace spmm
