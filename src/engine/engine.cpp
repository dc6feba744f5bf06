#include "spmm/engine.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/spare_pages.hpp"
#include "base/text.hpp"
#include "base/workers.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/isa.hpp"
#include "cuda/cuda_backend.hpp"
#include "engine/product.hpp"
#include "engine/releasing_sink.hpp"
#include "io/file_sink.hpp"
#include "io/paths.hpp"
#include "spmm/io.hpp"
#include "verify/sample_verifier.hpp"

namespace spmm {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSparePercent = 10;  // of free memory is left to others where no limit was given

void check_output_is_no_input(const fs::path& input, const fs::path& out) {
  if (!same_file(input, out)) return;
  throw UsageError(out.string(), text("the output is the same file as the input ", input.string()),
                   "give the output another name");
}

/// Asks for the inputs ahead of time while it lives: the first CUDA product of a process takes 0.2 s to start.
class Prefetching {
 public:
  Prefetching(const Source& a, const Source& b)
      : thread_(start_thread([&a, &b] {
          try {
            a.prefetch();
            b.prefetch();
          } catch (...) {  // reading says what is wrong
          }
        })) {}

 private:
  std::jthread thread_;
};

/// Clock and report of one product.
struct Record {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  StageClock clock{cuda::stage_hooks()};
  Report report{};

  /// Completes the report when everything is done.
  void close() {
    for (std::size_t s = 0; s < kStageNames.size(); ++s) report.stages[s] = clock.totals(static_cast<Stage>(s));
    report.stages[static_cast<std::size_t>(Stage::write)].bytes =
        kHeaderBytes + report.c.num_blocks * output_record_bytes(report.c.m);
    report.peak_host_bytes = peak_resident_bytes();
    report.total_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

/// How a product with these options is verified, and the machine that is left to it beside the samples.
VerifySettings verify_beside(const ProductOptions& product, std::uint32_t m, plan::Machine& machine) {
  const std::uint64_t limit_bytes = machine.host_limit_bytes;
  const VerifySettings settings = verify_settings(product.verify_blocks, product.verify_seed, m, limit_bytes);
  if (limit_bytes != 0) machine.host_limit_bytes -= std::min(limit_bytes - 1, settings.sample_bytes);
  return settings;
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(const EngineOptions& options) : options_(options), budget_(options.memory_limit_bytes == 0) {}

  /// The product itself: everything between opening and closing, the same for files, matrices and the caller's streams.
  void multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& product, Record& record);

  /// The machine as this product may use it; `device` is set where it has one. No CUDA call is made where the options
  /// ask for the CPU.
  /// Errors: UsageError (unknown kernel); DeviceError if a device is asked for and there is none.
  plan::Machine machine(const ProductOptions& product, MemoryShare& share,
                        std::shared_ptr<cuda::DeviceContext>& device);

  [[nodiscard]] Options all_options(const ProductOptions& product) const { return {options_, product}; }
  /// Pages of the output count as resident while they are mapped: not where a tight limit was given.
  [[nodiscard]] io::FileSinkTuning writing() const {
    constexpr std::uint64_t kTightBytes = std::uint64_t{4} << 30;
    const bool is_tight = options_.memory_limit_bytes != 0 && options_.memory_limit_bytes < kTightBytes;
    return is_tight ? io::FileSinkTuning{} : io::fastest_tuning(usable_cores());
  }
  [[nodiscard]] MemoryBudget& budget() { return budget_; }

 private:
  std::shared_ptr<cuda::DeviceContext> find_device(std::string& why_not, bool& was_started);
  [[nodiscard]] std::uint64_t limit_bytes(std::uint64_t available_bytes) const;
  void run(const Source& a, const Source& b, Sink& sink, plan::Machine machine, const ProductOptions& product, Run run,
           Report& report) const;

  EngineOptions options_;
  Workers workers_;
  MemoryBudget budget_;
  std::mutex device_mutex_;
  std::shared_ptr<cuda::DeviceContext> device_;  // once a product has needed it
};

std::uint64_t Engine::Impl::limit_bytes(std::uint64_t available_bytes) const {
  return options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : available_bytes / 100 * (100 - kSparePercent);
}

std::shared_ptr<cuda::DeviceContext> Engine::Impl::find_device(std::string& why_not, bool& was_started) {
  const std::lock_guard lock(device_mutex_);
  was_started = device_ != nullptr;
  if (!device_) device_ = cuda::find_device(options_.device, why_not);
  return device_;
}

plan::Machine Engine::Impl::machine(const ProductOptions& product, MemoryShare& share,
                                    std::shared_ptr<cuda::DeviceContext>& device) {
  const Backend wanted = wanted_backend(product);
  plan::Machine machine{.num_cores = usable_cores(),
                        .host_limit_bytes = share.host_limit_bytes(
                            [&] { return limit_bytes(available_memory_bytes() + spare_pages().bytes()); }),
                        .isa = cpu::choose_isa(),
                        .has_blas = !cpu::build_info().empty()};
  if (wanted == Backend::cpu) return machine;
  bool was_started = false;
  device = find_device(machine.why_no_gpu, was_started);
  if (device) {
    const cuda::DeviceInfo info = cuda::describe(*device);
    machine.gpus.push_back({.number = info.number,
                            .name = info.name,
                            .limit_bytes = share.device_limit_bytes(
                                [&] { return std::min(limit_bytes(info.memory_bytes), info.memory_bytes); }),
                            .has_dense_tensor = info.has_dense_tensor,
                            .is_started = was_started});
  } else if (wanted == Backend::cuda) {
    throw DeviceError("--backend cuda", machine.why_no_gpu, "use --backend cpu, or check nvidia-smi");
  }
  return machine;
}

void Engine::Impl::run(const Source& a, const Source& b, Sink& sink, plan::Machine machine,
                       const ProductOptions& product, Run run, Report& report) const {
  const Options options = all_options(product);
  if (product.verify_blocks == 0) {
    ReleasingSink releasing(sink);
    multiply_product(a, b, releasing, machine, options, run, report);
    return;
  }
  check_shapes(a, b);  // before anything is sampled
  const VerifySettings settings = verify_beside(product, a.header().m, machine);
  run.beside_bytes = settings.sample_bytes;
  VerifyingSink verifying(sink, a, b, settings, run);
  ReleasingSink releasing(verifying);
  multiply_product(a, b, releasing, machine, options, run, report);
  const auto timing = run.clock.scope(Stage::verify);
  report.verified_blocks = verifying.check(run);
}

void Engine::Impl::multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& product,
                            Record& record) {
  MemoryShare share(budget_);
  std::shared_ptr<cuda::DeviceContext> device;
  plan::Machine machine;
  {
    const auto timing = record.clock.scope(Stage::open);
    const Prefetching prefetching(a, b);
    machine = this->machine(product, share, device);
  }
  const Run run{.clock = record.clock,
                .on_progress = product.on_progress,
                .cancel = product.cancel,
                .num_threads = num_threads(all_options(product), machine.num_cores),
                .workers = &workers_,
                .memory = &share,
                .device = device.get()};
  this->run(a, b, sink, machine, product, run, record.report);
  run.check_cancelled();
  const auto timing = record.clock.scope(Stage::write);
  sink.publish();
}

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Engine::~Engine() = default;

Report Engine::multiply(const fs::path& a, const fs::path& b, const fs::path& out, const ProductOptions& options) {
  Record record;
  wanted_backend(options);  // rejects unknown names before any file is opened
  std::unique_ptr<Source> source_a;
  std::unique_ptr<Source> source_b;
  std::unique_ptr<Sink> file;
  {
    const auto timing = record.clock.scope(Stage::open);
    source_a = open_file_source(a);
    source_b = open_file_source(b);
    check_shapes(*source_a, *source_b);
    check_output_is_no_input(a, out);
    check_output_is_no_input(b, out);
    file = io::open_tuned_file_sink(out, source_a->header().m,
                                    {.durable = options.durable, .no_clobber = options.no_clobber}, impl_->writing());
  }
  impl_->multiply(*source_a, *source_b, *file, options, record);
  record.close();
  return record.report;
}

ProductMatrix Engine::multiply(const BlockMatrix& a, const BlockMatrix& b, const ProductOptions& options,
                               Report* report) {
  Record record;
  const auto source_a = make_memory_source(a, "matrix A");
  const auto source_b = make_memory_source(b, "matrix B");
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  impl_->multiply(*source_a, *source_b, *sink, options, record);
  record.close();
  if (report != nullptr) *report = record.report;
  return product;
}

Report Engine::multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& options) {
  Record record;
  validate_header(a.header(), a.name());
  validate_header(b.header(), b.name());
  impl_->multiply(a, b, sink, options, record);
  record.close();
  return record.report;
}

Plan Engine::plan(const fs::path& a, const fs::path& b, const ProductOptions& options) {
  const auto source_a = open_file_source(a);
  const auto source_b = open_file_source(b);
  check_shapes(*source_a, *source_b);
  MemoryShare share(impl_->budget());
  std::shared_ptr<cuda::DeviceContext> device;
  plan::Machine machine = impl_->machine(options, share, device);
  if (options.verify_blocks != 0) static_cast<void>(verify_beside(options, source_a->header().m, machine));
  return plan_product(source_a->header(), source_b->header(), product_limits(machine, impl_->all_options(options)));
}

}  // namespace spmm
