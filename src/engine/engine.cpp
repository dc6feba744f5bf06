#include "spmm/engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/counted.hpp"
#include "base/memory/machine_memory.hpp"
#include "base/memory/spare_pages.hpp"
#include "base/run/parallel.hpp"
#include "base/run/workers.hpp"
#include "base/text.hpp"
#include "cpu/backend.hpp"
#include "cpu/simd/isa.hpp"
#include "cuda/backend.hpp"
#include "engine/backend_choice.hpp"
#include "engine/devices.hpp"
#include "engine/memory/counted_sink.hpp"
#include "engine/memory/memory_beside.hpp"
#include "engine/output_checks.hpp"
#include "engine/prefetching.hpp"
#include "engine/product/operands.hpp"
#include "engine/product/product.hpp"
#include "engine/product/proven.hpp"
#include "engine/product/record.hpp"
#include "engine/product/releasing_sink.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/paths.hpp"
#include "io/files/scratch_file.hpp"
#include "io/formats/format.hpp"
#include "io/parts/sink.hpp"
#include "plan/decide.hpp"
#include "plan/models/run_models.hpp"
#include "spmm/io.hpp"
#include "verify/sample_verifier.hpp"

namespace spmm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "the result";
constexpr std::uint64_t kSparePercent = 10;  // of free memory is left to others where no limit was given

/// Where a product runs, and within what limits.
struct Place {
  plan::Limits limits{};                  ///< names the backend
  EngineDevices::Contexts devices{};      ///< none on the CPU
  std::list<MemoryShare> shares{};        ///< of the memory of the devices beside the first
  std::optional<BackendChoice> choice{};  ///< where the options leave the backend open and there are two

  /// Completes a plan by what was predicted for the other backend.
  void complete(Plan& plan) const {
    if (!choice) return;
    if (plan.predicted_cuda_s == 0) plan.predicted_cuda_s = choice->cuda_s;
    if (plan.predicted_cpu_s == 0) plan.predicted_cpu_s = choice->cpu_s;
  }
};

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(const EngineOptions& options)
      : options_(options), devices_(options), budget_(options.memory_limit_bytes == 0) {}

  /// The product itself: everything between opening and closing, the same for files, matrices and the caller's streams.
  /// Values: out = how messages call the result.
  void multiply(const Source& a, const Source& b, Sink& sink, const std::string& out, const ProductOptions& product,
                ProductRecord& record);

  /// Chooses the backend where the options leave it open, and starts the device where one is used. CUDA is not touched
  /// where the CPU is asked for or chosen. Where CUDA was chosen and does not start, the CPU takes its place.
  /// Values: why_not_cuda = why CUDA may not be chosen; empty: it may.
  /// Errors: UsageError (unknown kernel); DeviceError if a device is asked for and there is none.
  Place place(const Source& a, const Source& b, const ProductOptions& product, OutputKind output, MemoryShare& share,
              const std::string& why_not_cuda);

  [[nodiscard]] Options all_options(const ProductOptions& product) const { return {options_, product}; }
  /// Pages of the output count as resident while they are mapped: not where a tight limit was given. Outputs that are
  /// written at the same time share the cores.
  [[nodiscard]] io::FileSinkTuning writing(std::uint32_t num_parts, StageClock& clock) const {
    constexpr std::uint64_t kTightBytes = std::uint64_t{4} << 30;
    const bool is_tight = options_.memory_limit_bytes != 0 && options_.memory_limit_bytes < kTightBytes;
    io::FileSinkTuning tuning = io::fastest_tuning(usable_cores(), num_running_, num_parts);
    if (is_tight && tuning.mode == io::WriteMode::mapped) tuning = {};
    tuning.clock = &clock;
    return tuning;
  }
  [[nodiscard]] MemoryBudget& budget() { return budget_; }
  /// Products from files.
  [[nodiscard]] std::atomic<unsigned>& num_running() { return num_running_; }

 private:
  /// Why a product failed that may be tried on the other backend; nothing has reached its sink.
  using Failure = std::optional<std::string>;

  /// The backend that the options insist on; a device number insists on CUDA. Errors: UsageError.
  [[nodiscard]] Backend insisted_backend(const ProductOptions& product) const {
    const Backend wanted = wanted_backend(product);
    if (wanted == Backend::cpu && devices_.are_always_shared()) {
      throw UsageError("EngineOptions::devices", "belongs to backend cuda, not cpu", "leave one of the two out");
    }
    return wanted == Backend::automatic && devices_.are_named() ? Backend::cuda : wanted;
  }
  [[nodiscard]] plan::Gpu describe_gpu(const cuda::DeviceContext& device, MemoryShare& share) const;
  [[nodiscard]] std::vector<plan::Gpu> describe_gpus(Place& place, MemoryShare& share);
  [[nodiscard]] std::vector<plan::Gpu> expect_gpus(MemoryShare& share) const;
  [[nodiscard]] plan::Limits limits_of(const plan::Machine& machine, const Source& a, const Source& b,
                                       const ProductOptions& product, OutputKind output);
  [[nodiscard]] unsigned num_devices(const Source& a, const Source& b, const ProductOptions& product, OutputKind output,
                                     plan::Machine machine, MemoryShare& share);
  [[nodiscard]] std::uint64_t limit_bytes(std::uint64_t available_bytes) const;
  Failure try_multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& product,
                       const std::string& why_not_cuda, ProductRecord& record);
  void run(const Source& a, const Source& b, Sink& sink, const Place& place, const ProductOptions& product, Run run,
           Report& report) const;

  EngineOptions options_;
  Workers workers_;
  EngineDevices devices_;
  std::atomic<unsigned> num_running_{0};
  MemoryBudget budget_;  // of the host and the first device; goes before that: it holds operands that are kept there
};

std::uint64_t Engine::Impl::limit_bytes(std::uint64_t available_bytes) const {
  return options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : available_bytes / 100 * (100 - kSparePercent);
}

plan::Gpu Engine::Impl::describe_gpu(const cuda::DeviceContext& device, MemoryShare& share) const {
  const cuda::DeviceInfo info = cuda::describe(device);
  return {.number = info.number,
          .name = info.name,
          .limit_bytes =
              share.device_limit_bytes([&] { return std::min(limit_bytes(info.memory_bytes), info.memory_bytes); }),
          .has_dense_tensor = info.has_dense_tensor,
          .capability = info.capability};
}

/// The devices of a product, which takes a share of the memory of each.
std::vector<plan::Gpu> Engine::Impl::describe_gpus(Place& place, MemoryShare& share) {
  std::vector<plan::Gpu> gpus;
  for (std::size_t x = 0; x < place.devices.size(); ++x) {
    MemoryShare& of_device = x == 0 ? share : place.shares.emplace_back(devices_.budget_beside(x));
    gpus.push_back(describe_gpu(*place.devices[x], of_device));
  }
  return gpus;
}

/// The devices that a product may use. What those are like that have not been started is not known yet. The start of
/// the first one is charged to the first product, less what earlier ones have lost without it: many products of an
/// engine are worth a start that one is not.
std::vector<plan::Gpu> Engine::Impl::expect_gpus(MemoryShare& share) const {
  constexpr std::uint64_t kExpectedBytes = std::uint64_t{64} << 30;
  const EngineDevices::Contexts started = devices_.started();
  std::vector<plan::Gpu> gpus(devices_.num_expected());
  for (std::size_t x = 0; x < gpus.size(); ++x) {
    gpus[x] = {.number = static_cast<int>(x),
               .limit_bytes = limit_bytes(kExpectedBytes),
               .has_dense_tensor = true,
               .start_s = x == 0               ? devices_.start_s()
                          : x < started.size() ? 0
                                               : plan::kMoreDeviceStartS};
  }
  if (!started.empty()) gpus.front() = describe_gpu(*started.front(), share);
  return gpus;
}

plan::Limits Engine::Impl::limits_of(const plan::Machine& machine, const Source& a, const Source& b,
                                     const ProductOptions& product, OutputKind output) {
  plan::Limits limits = product_limits(machine, all_options(product));
  limits.num_parts = wanted_parts(a.header(), b.header(), product);
  limits.has_scratch = output.has_scratch;
  limits.discards_result = output.discards_result;
  return limits;
}

/// How many devices a product is to share that insists on CUDA; no matter where they are named.
unsigned Engine::Impl::num_devices(const Source& a, const Source& b, const ProductOptions& product, OutputKind output,
                                   plan::Machine machine, MemoryShare& share) {
  if (devices_.are_named() || devices_.num_expected() == 1) return 1;
  machine.gpus = expect_gpus(share);
  plan::Limits limits = limits_of(machine, a, b, product, output);
  limits.backend = Backend::cuda;
  const plan::Statistics expected = plan::expected_statistics(a.header(), b.header());
  return static_cast<unsigned>(std::max<std::size_t>(1, plan::decide(expected, limits).devices.size()));
}

Place Engine::Impl::place(const Source& a, const Source& b, const ProductOptions& product, OutputKind output,
                          MemoryShare& share, const std::string& why_not_cuda) {
  Backend backend = insisted_backend(product);
  plan::Machine machine{.num_cores = usable_cores(),
                        .host_limit_bytes = share.host_limit_bytes(
                            [&] { return limit_bytes(available_memory_bytes() + spare_pages().bytes()); }),
                        .isa = cpu::choose_isa(),
                        .has_blas = !cpu::build_info().empty(),
                        .why_no_gpu = why_not_cuda};
  Place place;
  const bool is_open = backend == Backend::automatic && why_not_cuda.empty();
  if (is_open && (!devices_.started().empty() || cuda::may_start(machine.why_no_gpu))) {
    machine.gpus = expect_gpus(share);
    place.choice = choose_backend(a, b, limits_of(machine, a, b, product, output), workers_);
    backend = place.choice->backend;
    if (backend == Backend::cpu && place.choice->cuda_s > 0) {
      devices_.add_lost(place.choice->cpu_s - place.choice->cuda_s + machine.gpus.front().start_s);
    }
    machine.gpus.clear();
  }
  if (backend == Backend::cuda) {
    const unsigned num = place.choice ? place.choice->num_devices : num_devices(a, b, product, output, machine, share);
    std::optional<Prefetching> prefetching;
    if (devices_.started().empty()) prefetching.emplace(a, b, budget_);
    place.devices = devices_.start(num, machine.why_no_gpu);
    prefetching.reset();
    machine.gpus = describe_gpus(place, share);
    if (place.devices.empty() && !place.choice) {
      throw DeviceError(devices_.are_always_shared() ? "EngineOptions::devices" : "ProductOptions::backend = cuda",
                        machine.why_no_gpu, "use ProductOptions::backend = cpu, or check nvidia-smi");
    }
  }
  const bool has_device = !place.devices.empty();
  place.limits = limits_of(machine, a, b, product, output);
  place.limits.shares_always = true;  // it has been decided which
  place.limits.backend = backend == Backend::cuda && !has_device ? Backend::cpu : backend;
  if (place.choice && (has_device || backend == Backend::cpu)) {
    place.limits.compared = {.cuda_s = place.choice->cuda_s, .cpu_s = place.choice->cpu_s};
  } else if (place.choice) {
    place.limits.why_backend = machine.why_no_gpu;
  }
  return place;
}

void Engine::Impl::run(const Source& a, const Source& b, Sink& sink, const Place& place, const ProductOptions& product,
                       Run run, Report& report) const {
  plan::Limits limits = place.limits;
  leave_room_for_result(a, b, sink, limits);
  run.keeps_result = sink.keeps_records();
  if (product.verify_full) return prove_product(a, b, sink, limits, product, run, report);
  if (product.verify_blocks == 0) {
    multiply_product(a, b, sink, limits, run, report);
    return;
  }
  check_shapes(a, b);  // before anything is sampled
  const VerifySettings settings = verify_beside(product, a.header().m, limits);
  run.beside_bytes = settings.sample_bytes;
  reserve_product(a, b, limits, run);
  VerifyingSink verifying(sink, a, b, settings, run);
  ReleasingSink releasing(verifying);
  multiply_product(a, b, releasing, limits, run, report);
  const auto timing = run.clock.scope(Stage::verify);
  report.verified_blocks = verifying.check(run);
}

Engine::Impl::Failure Engine::Impl::try_multiply(const Source& a, const Source& b, Sink& sink,
                                                 const ProductOptions& product, const std::string& why_not_cuda,
                                                 ProductRecord& record) {
  MemoryShare share(budget_);
  CountedSink counted(sink, share);
  ReleasingSink releasing(counted);
  const auto may_fall_back = [&] {
    return insisted_backend(product) == Backend::automatic && why_not_cuda.empty() && !releasing.was_used();
  };
  Place place;
  try {
    {
      const auto timing = record.clock.scope(Stage::open);
      place = this->place(a, b, product, record.output, share, why_not_cuda);
    }
    std::vector<DeviceUse> more_devices;
    auto more_share = place.shares.begin();
    for (std::size_t x = 1; x < place.devices.size(); ++x) {
      more_devices.push_back({.device = place.devices[x].get(), .memory = &*more_share++});
    }
    const Run run{.clock = record.clock,
                  .on_progress = product.on_progress,
                  .cancel = product.cancel,
                  .num_threads = num_threads(all_options(product), place.limits.num_cores),
                  .workers = &workers_,
                  .memory = &share,
                  .device = place.devices.empty() ? nullptr : place.devices.front().get(),
                  .more_devices = more_devices,
                  .scratch_folders = record.scratch_folders,
                  .keep_a = product.keep_a,
                  .keep_b = product.keep_b};
    this->run(a, b, releasing, place, product, run, record.report);
    run.check_cancelled();
    place.complete(record.report.plan);
    return std::nullopt;
  } catch (const DeviceError& e) {
    if (!may_fall_back()) throw;
    return text("CUDA failed: ", e.what());
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& e) {  // of a CUDA call
    if (!may_fall_back()) throw;
    return text("CUDA failed: ", e.what());
  }
}

void Engine::Impl::multiply(const Source& a, const Source& b, Sink& sink, const std::string& out,
                            const ProductOptions& product, ProductRecord& record) {
  const ProductOperands operands(a, b, product);
  const Failure failure = try_multiply(operands.a(), operands.b(), sink, product, "", record);
  if (failure) try_multiply(operands.a(), operands.b(), sink, product, *failure, record);
  operands.describe(record.report.plan);
  const auto timing = record.clock.scope(Stage::write);
  check_saturation(product, record.report, sink, out);
  sink.publish();
}

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Engine::~Engine() = default;

Report Engine::multiply(const fs::path& a, const fs::path& b, const fs::path& out, const ProductOptions& options) {
  ProductRecord record(options);
  wanted_backend(options);  // rejects unknown names before any file is opened
  const Counted running(impl_->num_running());
  std::unique_ptr<Source> source_a;
  std::unique_ptr<Source> source_b;
  std::unique_ptr<Sink> file;
  const io::PartsSink* parts = nullptr;
  std::uint32_t num_parts = 0;
  {
    const auto timing = record.clock.scope(Stage::open);
    source_a = open_file_source(a);
    source_b = open_file_source(b);
    check_shapes(*source_a, *source_b);
    check_output_is_no_input(a, out);
    check_output_is_no_input(b, out);
    record.scratch_folders = io::scratch_folders(out);
    std::error_code ignored;
    record.output = {.has_scratch = true, .discards_result = fs::is_character_file(out, ignored)};
    const FileSinkOptions how{.durable = options.durable, .no_clobber = options.no_clobber};
    const std::uint32_t m = source_a->header().m;
    num_parts = wanted_parts(source_a->header(), source_b->header(), options);
    io::FileSinkTuning writing = impl_->writing(num_parts, record.clock);
    writing.result_bytes = expected_result_bytes(source_a->header(), source_b->header());
    if (num_parts == 0) {
      file = io::open_tuned_file_sink(out, m, how, writing);
    } else {
      check_output_holds_no_input(a, out);
      check_output_holds_no_input(b, out);
      auto folder = io::open_tuned_parts_sink(out, m, num_parts, how, writing);
      parts = folder.get();
      file = std::move(folder);
    }
  }
  impl_->multiply(*source_a, *source_b, *file, out.string(), options, record);
  if (parts != nullptr) record.report.parts = parts->parts();
  record.report.plan.num_parts = num_parts;
  record.close();
  return record.report;
}

ProductMatrix Engine::multiply(const BlockMatrix& a, const BlockMatrix& b, const ProductOptions& options,
                               Report* report) {
  ProductRecord record(options);
  const auto source_a = make_memory_source(a, "matrix A");
  const auto source_b = make_memory_source(b, "matrix B");
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  impl_->multiply(*source_a, *source_b, *sink, kResult, options, record);
  record.close();
  if (report != nullptr) *report = record.report;
  return product;
}

Report Engine::multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& options) {
  ProductRecord record(options);
  io::check_memory_shape(a.header(), a.name());
  io::check_memory_shape(b.header(), b.name());
  impl_->multiply(a, b, sink, kResult, options, record);
  record.close();
  return record.report;
}

Plan Engine::plan(const fs::path& a, const fs::path& b, const ProductOptions& options) {
  const auto source_a = open_file_source(a);
  const auto source_b = open_file_source(b);
  check_shapes(*source_a, *source_b);
  MemoryShare share(impl_->budget());
  const ProductOperands operands(*source_a, *source_b, options);
  Place place = impl_->place(operands.a(), operands.b(), options, {.has_scratch = true}, share, "");
  std::uint64_t proof_bytes = 0;
  if (options.verify_full) proof_bytes = leave_to_proof(operands.a(), operands.b(), kMaxProofColumns, place.limits);
  if (options.verify_blocks != 0 && !options.verify_full)
    static_cast<void>(verify_beside(options, source_a->header().m, place.limits));
  Plan plan = plan_product(source_a->header(), source_b->header(), place.limits);
  place.complete(plan);
  if (options.verify_full) add_proof(source_a->header(), source_b->header(), proof_bytes, plan);
  operands.describe(plan);
  plan.num_parts = wanted_parts(source_a->header(), source_b->header(), options);
  return plan;
}

}  // namespace spmm
