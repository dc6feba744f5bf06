// The engine: where each product runs, its attempts, and what outlives it.
#include "spmm/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory/counted.hpp"
#include "base/memory/machine_memory.hpp"
#include "base/memory/spare_pages.hpp"
#include "base/run/parallel.hpp"
#include "base/run/workers.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cpu/backend.hpp"
#include "cpu/simd/isa.hpp"
#include "cuda/backend.hpp"
#include "engine/backend_choice.hpp"
#include "engine/device_product.hpp"
#include "engine/devices.hpp"
#include "engine/memory/reserve.hpp"
#include "engine/output_checks.hpp"
#include "engine/prefetching.hpp"
#include "engine/product/operands.hpp"
#include "engine/memory/output.hpp"
#include "engine/product/product.hpp"
#include "engine/product/proven.hpp"
#include "engine/product/record.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/paths.hpp"
#include "io/files/scratch_file.hpp"
#include "io/formats/format.hpp"
#include "plan/decide.hpp"
#include "plan/models/run_models.hpp"
#include "spmm/io.hpp"

namespace spmm {
/// The backend and the devices that a product runs on, and its limits.
struct Target {
  plan::Limits limits{};                  ///< names the backend
  EngineDevices::Contexts devices{};      ///< none on the CPU
  std::list<MemoryShare> shares{};        ///< of the memory of further devices
  std::optional<BackendChoice> choice{};  ///< if the options leave the backend open and there are two

  /// What the product holds of further devices.
  [[nodiscard]] std::vector<DeviceUse> more_devices() {
    std::vector<DeviceUse> more;
    for (MemoryShare& share : shares) more.push_back({.device = devices[more.size() + 1].get(), .memory = &share});
    return more;
  }

  /// Completes a plan by what was predicted for the other backend.
  void complete(Plan& plan) const {
    if (!choice) return;
    if (plan.predicted_cuda_s == 0) plan.predicted_cuda_s = choice->cuda_s;
    if (plan.predicted_cpu_s == 0) plan.predicted_cpu_s = choice->cpu_s;
  }
};

namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "the result";
constexpr std::uint64_t kSparePercent = 10;  // of free memory is left to others where no limit was given

/// The product within limits that name the backend, and its verification.
void multiply_within(plan::Limits limits, const ProductOperands& operands, Output& sink, const ProductOptions& product,
                     Run run, Report& report) {
  check_shapes(operands.inputs().a, operands.inputs().b);  // before anything is sampled
  leave_to_result(operands.expected(), sink, limits);
  if (product.verify_full || product.verify_blocks != 0) {
    return prove_product(operands, sink, limits, product, run, report);
  }
  multiply_product(operands, sink, limits, reserve_product(operands, limits, run), run, report);
}

}  // namespace

/// What a plan holds; the later goes first.
struct DevicePlan::State {
  State(const DeviceBsrView& a, const DeviceBsrView& b, DeviceCall how, const ProductOptions& options,
        MemoryBudget& budget)
      : view_a(a),
        view_b(b),
        call(std::move(how)),
        record(options),
        product(view_a, view_b, call, options),
        share(call.allocator.serves_workspace ? of_caller : budget) {
    product.set_pattern();
    record.stay_on(product.arrays());
  }

  DeviceBsrView view_a;
  DeviceBsrView view_b;
  DeviceCall call;
  ProductRecord record;
  DeviceProduct product;
  ProductOperands operands{product.a(), product.b()};
  MemoryBudget of_caller{};
  MemoryShare share;
  Target target{};
  std::optional<Run> run{};
  std::unique_ptr<cuda::PlannedProduct> planned{};
};

class Engine::Impl {
 public:
  explicit Impl(const EngineOptions& options)
      : options_(options), devices_(options), budget_(options.memory_limit_bytes == 0) {}

  /// The product itself: everything between opening and closing, the same for files, matrices and the caller's streams.
  /// Values: out = how messages call the result.
  void multiply(const Inputs& inputs, Sink& sink, const std::string& out, const ProductOptions& product,
                ProductRecord& record);

  /// On the device that holds operands and result.
  void multiply(DeviceProduct& product, ProductRecord& record, Report* report);

  /// Chooses the backend if the options leave it open, and starts the device if one is used. CUDA is not touched
  /// if the CPU is asked for or chosen. If CUDA was chosen and does not start, the CPU takes its place.
  /// Values: why_not_cuda = why CUDA may not be chosen; empty: it may.
  /// Errors: UsageError (unknown kernel); DeviceError if a device is asked for and there is none.
  Target choose_target(const ProductOperands& operands, const ProductOptions& product, OutputKind output,
                       MemoryShare& share, const std::string& why_not_cuda);

  /// Completes a plan's state. Errors: as multiply().
  void plan_on_device(DevicePlan::State& state);

  void trim() const {
    for (const auto& device : devices_.started()) cuda::trim(*device);
  }

  [[nodiscard]] Options all_options(const ProductOptions& product) const { return {options_, product}; }
  /// Pages of the output count as resident while they are mapped: not where a tight limit was given. Outputs that are
  /// written at the same time share the cores.
  [[nodiscard]] io::FileSinkTuning writing(StageClock& clock) const {
    // A margin, not measured: 16 writers that each fill a range of 64 MB (MappedFile::kRangeBytes) hold 1 GB of it.
    constexpr std::uint64_t kTightBytes = std::uint64_t{4} << 30;
    const bool is_tight = options_.memory_limit_bytes != 0 && options_.memory_limit_bytes < kTightBytes;
    io::FileSinkTuning tuning = io::fastest_tuning(usable_cores(), num_running_);
    if (is_tight) tuning = {};
    tuning.clock = &clock;
    return tuning;
  }
  [[nodiscard]] MemoryBudget& budget() { return budget_; }
  /// For what is read before it is decided how the product runs.
  [[nodiscard]] Run run_of(const ProductOptions& product, StageClock& clock) {
    return {.clock = clock,
            .on_progress = product.on_progress,
            .cancel = product.cancel,
            .num_threads = num_threads(all_options(product), usable_cores()),
            .workers = &workers_};
  }
  [[nodiscard]] bool is_of_this_process() const { return process_ == ::getpid(); }
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
  [[nodiscard]] plan::Gpu describe_gpu(const cuda::DeviceContext& device, MemoryShare& share,
                                       bool brings_memory = false) const;
  [[nodiscard]] std::vector<plan::Gpu> describe_gpus(Target& target, MemoryShare& share, bool brings_memory);
  [[nodiscard]] std::vector<plan::Gpu> expect_gpus(MemoryShare& share) const;
  void wait_for_others(const Target& target, const plan::Statistics& expected, const ProductOptions& product,
                       const OutputKind& output, plan::Machine machine);
  [[nodiscard]] plan::Limits limits_of(const plan::Machine& machine, const ProductOptions& product, OutputKind output);
  [[nodiscard]] unsigned num_devices(const plan::Statistics& expected, const ProductOptions& product, OutputKind output,
                                     plan::Machine machine, MemoryShare& share);
  [[nodiscard]] std::uint64_t limit_bytes(std::uint64_t available_bytes) const;
  [[nodiscard]] std::uint64_t measured_host_bytes(OutputKind output);
  Failure try_multiply(const ProductOperands& operands, Sink& sink, const ProductOptions& product,
                       const std::string& why_not_cuda, ProductRecord& record);

  EngineOptions options_;
  pid_t process_ = ::getpid();
  Workers workers_;
  EngineDevices devices_;
  std::atomic<unsigned> num_running_{0};
  std::mutex host_mutex_;
  std::uint64_t host_bytes_ = 0;  // that were available to the process when it was measured
  std::chrono::steady_clock::time_point host_measured_{};
  MemoryBudget budget_;  // of the host and the first device; goes before that: it holds operands that are kept there
};

std::uint64_t Engine::Impl::limit_bytes(std::uint64_t available_bytes) const {
  return options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : available_bytes / 100 * (100 - kSparePercent);
}

/// A product that stays on the device takes no host memory to speak of: what was measured within the last second will
/// do, since asking the system takes as long as a small product.
std::uint64_t Engine::Impl::measured_host_bytes(OutputKind output) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(host_mutex_);
  if (!output.stays_on_device || host_bytes_ == 0 || now - host_measured_ > std::chrono::seconds(1)) {
    host_bytes_ = available_memory_bytes() + spare_pages().bytes();
    host_measured_ = now;
  }
  return host_bytes_;
}

plan::Gpu Engine::Impl::describe_gpu(const cuda::DeviceContext& device, MemoryShare& share, bool brings_memory) const {
  cuda::DeviceInfo info = cuda::describe(device);
  if (brings_memory) info.memory_bytes = info.all_bytes;  // the caller's allocator knows how much of it there is
  return {.number = shown_gpu(info.number),
          .name = info.name,
          .limit_bytes =
              share.device_limit_bytes([&] { return std::min(limit_bytes(info.memory_bytes), info.memory_bytes); }),
          .has_dense_tensor = info.has_dense_tensor,
          .capability = info.capability};
}

/// Looks again for kBusyPatience where other processes have memory of a device that makes a difference: the one before
/// may be about to end.
void Engine::Impl::wait_for_others(const Target& target, const plan::Statistics& expected,
                                   const ProductOptions& product, const OutputKind& output, plan::Machine machine) {
  constexpr std::uint64_t kOwnPercent = 5;  // at most, of an idle device: contexts, and what the driver keeps
  const auto limits_with = [&](bool alone) {
    machine.gpus.clear();
    for (const auto& device : target.devices) {
      const cuda::DeviceInfo info = cuda::describe(*device);
      const std::uint64_t bytes = alone ? info.all_bytes / 100 * (100 - kOwnPercent) : info.memory_bytes;
      machine.gpus.push_back({.limit_bytes = std::min(limit_bytes(bytes), bytes),
                              .has_dense_tensor = info.has_dense_tensor,
                              .capability = info.capability});
    }
    plan::Limits limits = limits_of(machine, product, output);
    limits.shares_always = true;
    limits.backend = Backend::cuda;
    return limits;
  };
  const auto is_idle = [](const auto& device) {
    const cuda::DeviceInfo info = cuda::describe(*device);
    return info.memory_bytes >= info.all_bytes / 100 * (100 - kOwnPercent);
  };
  const auto end = std::chrono::steady_clock::now() + kBusyPatience;
  while (!std::all_of(target.devices.begin(), target.devices.end(), is_idle) &&
         is_crowded_out(expected, limits_with(false), limits_with(true)) && std::chrono::steady_clock::now() < end &&
         (product.cancel == nullptr || !*product.cancel)) {
    std::this_thread::sleep_for(kBusyPause);
  }
}

/// The devices of a product, which takes a share of the memory of each.
std::vector<plan::Gpu> Engine::Impl::describe_gpus(Target& target, MemoryShare& share, bool brings_memory) {
  std::vector<plan::Gpu> gpus;
  for (std::size_t x = 0; x < target.devices.size(); ++x) {
    MemoryShare& of_device = x == 0 ? share : target.shares.emplace_back(devices_.budget_of(x));
    gpus.push_back(describe_gpu(*target.devices[x], of_device, brings_memory));
  }
  return gpus;
}

/// The devices that a product may use. What those are like that have not been started is not known yet. The start of
/// the first one is charged to the first product, less what earlier ones have lost without it: many products of an
/// engine are worth a start that one is not.
std::vector<plan::Gpu> Engine::Impl::expect_gpus(MemoryShare& share) const {
  const EngineDevices::Contexts started = devices_.started();
  std::vector<plan::Gpu> gpus(devices_.num_expected());
  for (std::size_t x = 0; x < gpus.size(); ++x) {
    gpus[x] = {.number = static_cast<int>(x),
               .limit_bytes = limit_bytes(kUnseenDeviceBytes),
               .has_dense_tensor = true,
               .start_s = x == 0               ? devices_.start_s()
                          : x < started.size() ? 0
                                               : plan::kMoreDeviceStartS};
  }
  if (!started.empty()) gpus.front() = describe_gpu(*started.front(), share);
  return gpus;
}

plan::Limits Engine::Impl::limits_of(const plan::Machine& machine, const ProductOptions& product, OutputKind output) {
  plan::Limits limits = product_limits(machine, all_options(product));
  limits.discards_result = output.discards_result;
  return limits;
}

/// How many devices a product is to share that insists on CUDA; no matter where they are named.
unsigned Engine::Impl::num_devices(const plan::Statistics& expected, const ProductOptions& product, OutputKind output,
                                   plan::Machine machine, MemoryShare& share) {
  if (output.stays_on_device || devices_.are_named() || devices_.num_expected() == 1) return 1;
  machine.gpus = expect_gpus(share);
  plan::Limits limits = limits_of(machine, product, output);
  limits.backend = Backend::cuda;
  return static_cast<unsigned>(std::max<std::size_t>(1, plan::decide(expected, limits).devices.size()));
}

Target Engine::Impl::choose_target(const ProductOperands& operands, const ProductOptions& product, OutputKind output,
                                   MemoryShare& share, const std::string& why_not_cuda) {
  Backend backend = insisted_backend(product);
  plan::Machine machine{
      .num_cores = usable_cores(),
      .host_limit_bytes = share.host_limit_bytes([&] { return limit_bytes(measured_host_bytes(output)); }),
      .isa = cpu::choose_isa(),
      .why_no_gpu = why_not_cuda};
  Target target;
  const bool is_open = backend == Backend::automatic && why_not_cuda.empty();
  if (is_open && (!devices_.started().empty() || cuda::may_start(machine.why_no_gpu))) {
    machine.gpus = expect_gpus(share);
    target.choice = choose_backend(operands, limits_of(machine, product, output), workers_);
    backend = target.choice->backend;
    if (backend == Backend::cpu && target.choice->cuda_s > 0) {
      devices_.add_lost(target.choice->cpu_s - target.choice->cuda_s + machine.gpus.front().start_s);
    }
    machine.gpus.clear();
  }
  if (backend == Backend::cuda) {
    const unsigned num =
        target.choice ? target.choice->num_devices : num_devices(operands.expected(), product, output, machine, share);
    std::optional<Prefetching> prefetching;
    const bool is_first = devices_.started().empty();
    if (is_first) prefetching.emplace(operands.inputs());
    target.devices = devices_.start(num, machine.why_no_gpu);
    if (is_first && !output.brings_memory) wait_for_others(target, operands.expected(), product, output, machine);
    prefetching.reset();
    machine.gpus = describe_gpus(target, share, output.brings_memory);
    if (target.devices.empty() && !target.choice) {
      throw DeviceError(devices_.are_always_shared() ? "EngineOptions::devices" : "ProductOptions::backend = cuda",
                        machine.why_no_gpu, "use ProductOptions::backend = cpu, or check nvidia-smi");
    }
  }
  const bool has_device = !target.devices.empty();
  if (output.stays_on_device && has_device) target.devices.resize(1);  // the one that holds the operands
  target.limits = limits_of(machine, product, output);
  target.limits.shares_always = true;  // it has been decided which
  target.limits.backend = backend == Backend::cuda && !has_device ? Backend::cpu : backend;
  target.limits.gpu_failed = !why_not_cuda.empty() || (target.choice && backend == Backend::cuda && !has_device);
  if (target.choice && (has_device || backend == Backend::cpu)) {
    target.limits.compared = {.cuda_s = target.choice->cuda_s, .cpu_s = target.choice->cpu_s};
  } else if (target.choice) {
    target.limits.why_backend = machine.why_no_gpu;
  }
  return target;
}

Engine::Impl::Failure Engine::Impl::try_multiply(const ProductOperands& operands, Sink& sink,
                                                 const ProductOptions& product, const std::string& why_not_cuda,
                                                 ProductRecord& record) {
  MemoryBudget of_caller;
  MemoryShare share(record.output.brings_memory ? of_caller : budget_);
  Output output(sink, share);
  bool is_on_device = true;  // or about to be
  const auto may_fall_back = [&] {
    return is_on_device && insisted_backend(product) == Backend::automatic && why_not_cuda.empty() &&
           !output.was_used();
  };
  try {
    Target target;
    {
      const auto timing = record.clock.scope(Stage::open);
      target = choose_target(operands, product, record.output, share, why_not_cuda);
    }
    is_on_device = !target.devices.empty();
    const std::vector<DeviceUse> more_devices = target.more_devices();
    const Run run{.clock = record.clock,
                  .on_progress = product.on_progress,
                  .cancel = product.cancel,
                  .num_threads = num_threads(all_options(product), target.limits.num_cores),
                  .workers = &workers_,
                  .memory = &share,
                  .keeps_result = sink.keeps_records(),
                  .device = target.devices.empty() ? nullptr : target.devices.front().get(),
                  .more_devices = more_devices,
                  .scratch_folders = record.scratch_folders,
                  .arrays = record.arrays};
    multiply_within(target.limits, operands, output, product, run, record.report);
    run.check_cancelled();
    target.complete(record.report.plan);
    return std::nullopt;
  } catch (const DeviceError& e) {
    if (!may_fall_back()) throw;
    return text("CUDA failed: ", e.what());
  } catch (const CudaError& e) {
    if (!may_fall_back()) throw;
    return text("CUDA failed: ", e.what());
  }
}

void Engine::Impl::plan_on_device(DevicePlan::State& state) {
  const ProductOptions& options = state.product.options();
  state.target = choose_target(state.operands, options, state.record.output, state.share, "");
  state.run.emplace(Run{.clock = state.record.clock,
                        .on_progress = options.on_progress,
                        .num_threads = num_threads(all_options(options), state.target.limits.num_cores),
                        .workers = &workers_,
                        .memory = &state.share,
                        .device = state.target.devices.front().get(),
                        .arrays = state.record.arrays});
  state.planned = plan_device_product(state.operands, state.target.limits, *state.run);
}

void Engine::Impl::multiply(const Inputs& inputs, Sink& sink, const std::string& out, const ProductOptions& product,
                            ProductRecord& record) {
  const ProductOperands operands(inputs.a, inputs.b, product, run_of(product, record.clock));
  const Failure failure = try_multiply(operands, sink, product, "", record);
  if (failure) try_multiply(operands, sink, product, *failure, record);
  operands.describe(record.report.plan);
  record.report.a = inputs.a.header();  // of all rows
  const auto timing = record.clock.scope(Stage::write);
  check_saturation(product, record.report, sink, out);
  sink.publish();
}

void Engine::Impl::multiply(DeviceProduct& product, ProductRecord& record, Report* report) {
  product.arrays().is_timed = report != nullptr;
  record.stay_on(product.arrays());
  multiply({product.a(), product.b()}, product.sink(), kResult, product.options(), record);
  record.close();
  product.result().num_saturated = record.report.saturated_elements;
  if (report != nullptr) *report = record.report;
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
  const Counted running(own().num_running());
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
    record.scratch_folders = io::scratch_folders(out);
    std::error_code ignored;
    record.output.discards_result = fs::is_character_file(out, ignored);
    const FileSinkOptions how{.durable = options.durable, .no_clobber = options.no_clobber};
    io::FileSinkTuning writing = own().writing(record.clock);
    writing.result_bytes = expected_result_bytes(source_a->header(), source_b->header(), options.rows);
    file = io::open_tuned_file_sink(out, source_a->header().m, how, writing);
  }
  own().multiply({*source_a, *source_b}, *file, out.string(), options, record);
  record.close();
  return record.report;
}

ProductMatrix Engine::multiply(const BlockMatrix& a, const BlockMatrix& b, const ProductOptions& options,
                               Report* report) {
  ProductRecord record(options);
  record.scratch_folders = io::scratch_folders();
  const auto source_a = make_memory_source(a, "matrix A");
  const auto source_b = make_memory_source(b, "matrix B");
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  own().multiply({*source_a, *source_b}, *sink, kResult, options, record);
  record.close();
  if (report != nullptr) *report = record.report;
  return product;
}

DeviceBsrMatrix Engine::multiply(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call,
                                 const ProductOptions& options, Report* report) {
  ProductRecord record(options);
  DeviceProduct product(a, b, call, options);
  own().multiply(product, record, report);
  return std::move(product.result());
}

DevicePlan Engine::plan(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call,
                        const ProductOptions& options) {
  auto state = std::make_unique<DevicePlan::State>(a, b, call, options, own().budget());
  own().plan_on_device(*state);
  return DevicePlan(std::move(state));
}

DevicePlan::DevicePlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
DevicePlan::DevicePlan(DevicePlan&& other) noexcept = default;
DevicePlan& DevicePlan::operator=(DevicePlan&& other) noexcept = default;
DevicePlan::~DevicePlan() = default;

const DeviceBsrMatrix& DevicePlan::pattern() const {
  return state_->product.result();
}

void DevicePlan::multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c, CUstream_st* stream) {
  state_->planned->multiply(a, b, c, stream);
}

std::uint64_t DevicePlan::count_saturated(const std::uint32_t* c, CUstream_st* stream) {
  return state_->planned->count_saturated(c, stream);
}

DeviceBsrBatch Engine::multiply_many(std::span<const DevicePair> products, const DeviceCall& call,
                                     const ProductOptions& options, Report* report) {
  if (products.empty()) return {.first_row = {0}};
  ProductRecord record(options);
  DeviceProduct product(check_products(products), call, options);
  own().multiply(product, record, report);
  return std::move(product.batch());
}

DeviceBsrBatch Engine::multiply_stacks(const DeviceStacks& products, const DeviceCall& call,
                                       const ProductOptions& options, Report* report) {
  if (products.num_products == 0) return {};
  ProductRecord record(options);
  DeviceProduct product(check_products(products), call, options);
  own().multiply(product, record, report);
  return std::move(product.batch());
}

void Engine::trim() {
  own().trim();
}

Report Engine::multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& options) {
  ProductRecord record(options);
  record.scratch_folders = io::scratch_folders();
  io::check_memory_shape(a.header(), a.name());
  io::check_memory_shape(b.header(), b.name());
  own().multiply({a, b}, sink, kResult, options, record);
  record.close();
  return record.report;
}

Plan Engine::plan(const fs::path& a, const fs::path& b, const ProductOptions& options) {
  const auto source_a = open_file_source(a);
  const auto source_b = open_file_source(b);
  check_shapes(*source_a, *source_b);
  MemoryShare share(own().budget());
  StageClock clock;
  const Run run = own().run_of(options, clock);
  const ProductOperands operands(*source_a, *source_b, options, run);
  Target target = own().choose_target(operands, options, {}, share, "");
  const plan::Statistics expected = sampled_statistics(operands, target.limits, run.pool());
  const std::uint64_t proof_bytes = leave_to_proof(options, expected, target.limits);
  Plan plan = plan_product(expected, target.limits);
  target.complete(plan);
  if (options.verify_full) add_proof(expected, proof_bytes, plan);
  operands.describe(plan);
  return plan;
}

}  // namespace spmm
