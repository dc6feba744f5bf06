// How a product runs: open, choose, reserve, read, count, decide, multiply, write, verify, publish.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "cpu/backend.hpp"
#include "engine/impl.hpp"
#include "engine/out_of_core.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/scratch_file.hpp"
#include "io/formats/format.hpp"
#include "spmm/io.hpp"
#include "verify/exact_rows.hpp"
#include "verify/proof.hpp"

namespace spmm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "the result";

/// Errors: UsageError if the options name a pattern.
void refuse_pattern(const ProductOptions& options, const char* why, const char* hint) {
  if (!options.pattern.empty()) throw UsageError("ProductOptions::pattern", why, hint);
}

/// One more product from files, as long as it exists.
class Running {
 public:
  explicit Running(std::atomic<unsigned>& count) : count_(count) { ++count_; }
  ~Running() { --count_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<unsigned>& count_;
};

/// How a file is written. Pages of the output count as resident while they are mapped: not where a tight limit was
/// given. Outputs that are written at the same time share the cores.
io::FileSinkTuning tuning_of(const EngineOptions& options, unsigned num_running, StageClock& clock) {
  // A margin, not measured: 16 writers that each fill a range of 64 MB (MappedFile::kRangeBytes) hold 1 GB of it.
  constexpr std::uint64_t kTightBytes = std::uint64_t{4} << 30;
  const bool is_tight = options.memory_limit_bytes != 0 && options.memory_limit_bytes < kTightBytes;
  io::FileSinkTuning tuning = is_tight ? io::FileSinkTuning{} : io::fastest_tuning(usable_cores(), num_running);
  tuning.clock = &clock;
  return tuning;
}

/// Multiplies both operands at once, or a range of them: reads, counts, decides on what was counted, and multiplies.
ProductStats multiply_at_once(const Inputs& inputs, Output& output, plan::Execution& execution,
                              const plan::Limits& limits, const cuda::DeviceRun& run) {
  const plan::Decide decide = [&](const plan::Statistics& counted) {
    return decide_within_share(counted, limits, run);
  };
  cuda::DeviceRun decided = run;
  decided.num_threads = execution.num_threads;
  if (execution.backend == Backend::cpu) return cpu::multiply(inputs.a, inputs.b, output, execution, decide, decided);
  return cuda::multiply(inputs.a, inputs.b, output, execution, decide, decided);
}

/// Seconds of a proof of a result without saturated elements. Measured: src/HISTORY.md.
double proof_seconds(const plan::Statistics& expected, const Plan& plan, const Selection& selection) {
  constexpr double kSecondsPerPair = 50e-9;          // of rows that are computed again
  constexpr double kSecondsPerMultiplyAdd = 0.1e-9;  // the same
  const double multiply_adds = std::pow(expected.m(), 3);
  if (!selection.is_all()) {
    return expected.num_pairs * (kSecondsPerPair + kSecondsPerMultiplyAdd * multiply_adds) / plan.num_threads;
  }
  constexpr double kSecondsPerElement = 0.4e-9;  // of C
  constexpr double kSecondsPerBlock = 90e-9;     // of an operand
  const double elements = plan.expected_output_blocks * static_cast<double>(expected.m()) * expected.m();
  const auto blocks = static_cast<double>(expected.num_blocks());
  return (elements * kSecondsPerElement + blocks * kSecondsPerBlock) / plan.num_threads;
}

/// Takes over what the product itself knows.
void fill_report(const Inputs& inputs, const ProductStats& stats, const plan::Execution& execution, Report& report) {
  constexpr std::uint64_t kMostOfHeader = 0xFFFF'FFFFu;
  report.a = inputs.a.header();
  report.b = inputs.b.header();
  report.c = {.n = report.a.n,
              .m = report.a.m,
              .num_blocks = static_cast<std::uint32_t>(std::min(stats.num_blocks, kMostOfHeader))};
  report.c_blocks = stats.num_blocks;
  report.plan = execution;
  report.pairs = stats.pairs;
  report.saturated_elements = stats.num_saturated;
  report.dropped_elements = stats.num_dropped;
  report.num_panels = stats.num_panels;
  report.peak_device_bytes = stats.peak_device_bytes;
  report.device = stats.device;
  if (!stats.shares.empty()) report.plan.devices = stats.shares;
}

/// One product within limits that name the backend, from the decision by headers to the proof of the finished output.
void run_product(const ProductOperands& operands, Sink& sink, Output& output, const plan::Limits& limits,
                 const ProductOptions& product, const cuda::DeviceRun& run, ProductRecord& record) {
  const Inputs& inputs = operands.inputs();
  const plan::Statistics& expected = operands.expected();
  Report& report = record.report;
  check_shapes(inputs.a, inputs.b);

  Prepared prepared;
  {
    const auto timing = run.clock.scope(Stage::budget);
    prepared = prepare(limits, expected, sink.keeps_records(), product);
    reserve_memory(prepared.execution, run, prepared.proof.resident_bytes, prepared.proof.end_bytes,
                   sink.keeps_records());
  }
  plan::Execution& execution = prepared.execution;
  std::optional<Proof> proof;
  std::optional<ResultProof> proven;
  if (prepared.proof.settings.memory_bytes != 0) {
    const auto timing = run.clock.scope(Stage::verify);
    proof.emplace(inputs.a, inputs.b, prepared.proof.settings, run);
    proven.emplace(*proof, sink, expected.a, run);
    output.show_to([&](std::uint64_t first, std::span<const std::byte> records) { proven->look(first, records); });
  }

  // Read, count, multiply, write: at once, or range by range.
  output.expect(inputs.m(), 0);
  ProductStats stats;
  if (!execution.is_out_of_core()) {
    stats = multiply_at_once(inputs, output, execution, prepared.limits, run);
  } else {
    if (run.arrays != nullptr) inputs.a.read(0, 1, nullptr);  // refuses
    cuda::DeviceRun alone = run;
    alone.more_devices = {};
    const MultiplyAtOnce range = [&](const Inputs& one, Output& to, plan::Execution& decided,
                                     const Selection& selection) {
      alone.selection = selection;
      return multiply_at_once(one, to, decided, decided.range_limits, alone);
    };
    stats = multiply_out_of_core(inputs, &output, range, run, record.scratch_folders, execution);
  }
  inputs.a.check_unchanged();
  inputs.b.check_unchanged();
  fill_report(inputs, stats, execution, report);
  {
    const auto timing = run.clock.scope(Stage::write);
    sink.finish(report.c);
  }
  if (!proven) return;
  const auto timing = run.clock.scope(Stage::verify);
  const ProofResult result = proven->check(report.c_blocks);
  if (!product.verify_full) {
    report.verified_blocks = result.num_blocks;
    return;
  }
  report.proof = {.is_proven = true,
                  .key = product.proof_key,
                  .num_rows = result.num_rows,
                  .num_saturated = result.num_saturated,
                  .num_exact_rows = result.num_exact};
}

}  // namespace

cuda::DeviceRun Engine::Impl::run_of(const ProductOptions& product, StageClock& clock, MemoryShare* memory) {
  return {{.clock = clock,
           .on_progress = product.on_progress,
           .cancel = product.cancel,
           .num_threads = num_threads({options_, product}, usable_cores()),
           .workers = &workers_,
           .memory = memory,
           .selection = product.selection}};
}

/// Returns why the product failed if it may be tried on the other backend: nothing has reached its sink.
std::string Engine::Impl::try_multiply(const ProductOperands& operands, Sink& sink, const ProductOptions& product,
                                       const std::string& why_not_cuda, ProductRecord& record) {
  MemoryBudget of_caller;
  MemoryShare share(record.output.brings_memory ? of_caller : budget_);
  Output output(sink, &share);
  bool is_on_device = true;  // or about to be
  const auto failed = [&](const std::exception& error) {
    const bool is_open = devices_.insisted_backend(product) == Backend::automatic && why_not_cuda.empty();
    if (!is_on_device || !is_open || output.was_used()) throw;
    return text("CUDA failed: ", error.what());
  };
  try {
    Target target;
    {
      const auto timing = record.clock.scope(Stage::open);
      target = devices_.choose_target(operands, product, record.output, share, workers_, why_not_cuda);
    }
    is_on_device = !target.devices.empty();
    const std::vector<cuda::DeviceUse> more_devices = target.more_devices();
    cuda::DeviceRun run = run_of(product, record.clock, &share);
    run.device = target.first_device();
    run.more_devices = more_devices;
    run.arrays = record.arrays;
    run_product(operands, sink, output, target.limits, product, run, record);
    run.check_cancelled();
    return {};
  } catch (const DeviceError& e) {
    return failed(e);
  } catch (const CudaError& e) {
    return failed(e);
  }
}

void Engine::Impl::multiply(const Inputs& inputs, Sink& sink, const std::string& out, const ProductOptions& product,
                            ProductRecord& record) {
  const ProductOperands operands(inputs.a, inputs.b, product, run_of(product, record.clock));
  const std::string failure = try_multiply(operands, sink, product, "", record);
  if (!failure.empty()) try_multiply(operands, sink, product, failure, record);
  operands.describe(record.report.plan);
  record.report.a = inputs.a.header();  // of all rows
  const auto timing = record.clock.scope(Stage::write);
  check_saturation(product, record.report, sink, out);
  sink.publish();
}

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Engine::~Engine() {
  if (impl_->is_of_this_process()) return;
  static_cast<void>(impl_.release());  // its threads are the parent's: nothing can be waited for
}

Engine::Impl& Engine::own() const {
  if (impl_->is_of_this_process()) return *impl_;
  throw UsageError("Engine", "belongs to the parent of this process", "make an engine after fork()");
}

Report Engine::multiply(const fs::path& a, const fs::path& b, const fs::path& out, const ProductOptions& options) {
  ProductRecord record(options);
  wanted_backend(options);  // rejects unknown names before any file is opened
  const Running running(own().num_running());
  std::unique_ptr<Source> source_a;
  std::unique_ptr<Source> source_b;
  std::unique_ptr<Source> pattern;
  std::unique_ptr<Sink> file;
  {
    const auto timing = record.clock.scope(Stage::open);
    source_a = open_file_source(a);
    source_b = open_file_source(b);
    check_shapes(*source_a, *source_b);
    check_output_is_no_input(a, out);
    check_output_is_no_input(b, out);
    if (!options.pattern.empty()) {
      pattern = open_file_source(options.pattern);
      check_output_is_no_input(options.pattern, out);
    }
    record.scratch_folders = io::scratch_folders(out);
    std::error_code ignored;
    record.output.discards_result = fs::is_character_file(out, ignored);
    const FileSinkOptions how{.durable = options.durable, .no_clobber = options.no_clobber};
    io::FileSinkTuning writing = tuning_of(own().options(), own().num_running(), record.clock);
    writing.result_bytes = expected_result_bytes(source_a->header(), source_b->header(), options);
    file = io::open_tuned_file_sink(out, source_a->header().m, how, writing);
  }
  if (pattern != nullptr) {
    own().multiply_given({*source_a, *source_b}, *pattern, *file, out.string(), options, record);
  } else {
    own().multiply({*source_a, *source_b}, *file, out.string(), options, record);
  }
  record.close();
  return record.report;
}

ProductMatrix Engine::multiply(const BlockMatrix& a, const BlockMatrix& b, const ProductOptions& options,
                               Report* report) {
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  Report finished = multiply(*make_memory_source(a, "matrix A"), *make_memory_source(b, "matrix B"), *sink, options);
  if (report != nullptr) *report = std::move(finished);
  return product;
}

Report Engine::multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& options) {
  refuse_pattern(options, "is for products of files", "pass the blocks of C as arrays: Accumulation::c");
  ProductRecord record(options);
  record.scratch_folders = io::scratch_folders();
  io::check_memory_shape(a.header(), a.name());
  io::check_memory_shape(b.header(), b.name());
  own().multiply({a, b}, sink, kResult, options, record);
  record.close();
  return record.report;
}

Plan Engine::plan(const fs::path& a, const fs::path& b, const ProductOptions& options) {
  refuse_pattern(options, "has no plan: the product of given blocks is computed in memory",
                 "multiply, or leave it out");
  const auto source_a = open_file_source(a);
  const auto source_b = open_file_source(b);
  check_shapes(*source_a, *source_b);
  MemoryShare share(own().budget());
  StageClock clock;
  const ProductOperands operands(*source_a, *source_b, options, own().run_of(options, clock));
  const Target target = own().devices().choose_target(operands, options, {}, share, own().workers(), "");
  const cuda::DeviceRun run = own().run_of(options, clock);
  const plan::Statistics expected = sampled_statistics(operands, run.num_threads, own().workers());
  Prepared prepared = prepare(target.limits, expected, false, options);
  if (prepared.execution.is_out_of_core()) {
    try {
      multiply_out_of_core(operands.inputs(), nullptr, {}, run, io::scratch_folders(), prepared.execution);
    } catch (const OutOfMemory&) {  // no scratch file, without the output's folder: what headers tell stays
    }
  }
  Plan plan = prepared.execution;
  if (options.verify_full) {
    plan.safe_limit_bytes = kProofShare * ExactRows::sure_memory_bytes(operands.inputs(), plan.host_limit_bytes, run);
    plan.proof_s = proof_seconds(expected, plan, options.selection);
  }
  operands.describe(plan);
  return plan;
}

void Engine::trim() {
  for (const auto& device : own().devices().started()) cuda::trim(*device);
}

}  // namespace spmm
