// The public calls: open, multiply, verify, report.
#include "spmm/multiply.hpp"

#include <chrono>
#include <thread>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/text.hpp"
#include "cpu/cpu_backend.hpp"
#include "cuda/cuda_backend.hpp"
#include "engine/product.hpp"
#include "io/paths.hpp"
#include "spmm/io.hpp"
#include "verify/sample_verifier.hpp"

namespace spmm {
namespace {

namespace fs = std::filesystem;

unsigned num_threads(const Options& options) {
  return options.num_threads != 0 ? options.num_threads : usable_cores();
}

/// Completes a report when everything is done.
void close_report(Report& report, const StageClock& clock, std::chrono::steady_clock::time_point start) {
  for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s] = clock.totals(static_cast<Stage>(s));
  report.stages[static_cast<std::size_t>(Stage::write)].bytes =
      kHeaderBytes + report.c.num_blocks * output_record_bytes(report.c.m);
  report.peak_host_bytes = peak_resident_bytes();
  report.total_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  return plan_product(source_a->header(), source_b->header(), find_machine(options), options);
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
  plan::Machine machine;
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
    machine = find_machine(options);
  }
  if (options.verify_blocks == 0) {
    multiply_product(*source_a, *source_b, *file, machine, options, run, report);
  } else {
    VerifyingSink sink(*file, *source_a, *source_b, options.verify_blocks, options.verify_seed);
    multiply_product(*source_a, *source_b, sink, machine, options, run, report);
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
  const plan::Machine machine = find_machine(options);
  const auto source_a = make_memory_source(a, "matrix A");
  const auto source_b = make_memory_source(b, "matrix B");
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  Report local;
  multiply_product(*source_a, *source_b, *sink, machine, options, run, local);
  sink->publish();
  close_report(local, clock, start);
  if (report != nullptr) *report = local;
  return product;
}

}  // namespace spmm
