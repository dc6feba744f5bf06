// Starting devices, named ones or as many as pay, and the choice between them and the CPU.
#include "engine/devices.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/memory/aligned_array.hpp"
#include "base/memory/machine_memory.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "engine/backend_choice.hpp"
#include "engine/product.hpp"
#include "plan/choice.hpp"
#include "plan/times.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr const char* kDevices = "EngineOptions::devices";
constexpr std::uint64_t kSparePercent = 10;  // of free memory is left to others where no limit was given

}  // namespace

EngineDevices::EngineDevices(const EngineOptions& options) : options_(options) {
  check_device_list(options.devices, options.device);
}

EngineDevices::Contexts EngineDevices::started() const {
  const std::lock_guard lock(mutex_);
  return contexts_;
}

unsigned EngineDevices::num_expected() const {
  if (options_.device >= 0 || local_rank()) return 1;
  return static_cast<unsigned>(std::max<std::size_t>(1, visible_gpus().size()));
}

EngineDevices::Contexts EngineDevices::start(unsigned num) {
  const std::lock_guard lock(mutex_);
  std::string why_not;
  const auto check_found = [&](bool is_found) {
    if (is_found) return;
    throw DeviceError(are_always_shared() ? kDevices : "ProductOptions::backend = cuda", why_not,
                      "use ProductOptions::backend = cpu, or check nvidia-smi");
  };
  if (are_always_shared()) {
    if (contexts_.empty()) start_named(why_not);
    check_found(!contexts_.empty());
    return contexts_;
  }
  if (contexts_.empty()) {
    std::shared_ptr<cuda::DeviceContext> first = cuda::find_device(options_.device, why_not);
    // The runtime calls a missing driver one that is too old.
    if (!first && !cuda::build_info().empty() && !has_gpu_driver()) {
      why_not = "there is no NVIDIA driver on this machine";
    }
    check_found(first != nullptr);
    add(std::move(first));
  }
  // The others by their numbers. One that does not start is done without.
  const int count = contexts_.size() < num ? cuda::num_devices(why_not) : 0;
  for (int number = 0; number < count && contexts_.size() < num; ++number) {
    const auto is_it = [&](const auto& context) { return cuda::describe(*context).number == number; };
    if (std::any_of(contexts_.begin(), contexts_.end(), is_it)) continue;
    try {
      add(cuda::find_device(number, why_not));
    } catch (const std::runtime_error&) {
      break;
    }
  }
  return {contexts_.begin(), contexts_.begin() + std::min<std::ptrdiff_t>(num, std::ssize(contexts_))};
}

void EngineDevices::start_named(std::string& why_not) {
  const int count = cuda::num_devices(why_not);
  if (count == 0) return;
  std::vector<int> numbers = options_.devices;
  if (numbers.front() == kAllDevices) {
    numbers.resize(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  const int last = *std::max_element(numbers.begin(), numbers.end());
  if (last >= count) {
    throw UsageError(kDevices, text("device ", last, " asked for, ", count, " visible"),
                     text("use numbers from 0 to ", count - 1, ", or check CUDA_VISIBLE_DEVICES"));
  }
  Contexts all;
  for (const int number : numbers) all.push_back(cuda::find_device(number, why_not));
  for (auto& one : all) add(std::move(one));
}

void EngineDevices::add(std::shared_ptr<cuda::DeviceContext> context) {
  if (!contexts_.empty()) budgets_.emplace_back();
  contexts_.push_back(std::move(context));
}

double EngineDevices::start_s() const {
  const std::lock_guard lock(mutex_);
  return std::max(0.0, plan::kDeviceStartS - lost_s_);
}

std::uint64_t EngineDevices::limit_bytes(std::uint64_t available_bytes) const {
  return options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : available_bytes / 100 * (100 - kSparePercent);
}

/// A product that stays on the device takes no host memory to speak of: what was measured within the last second will
/// do, since asking the system takes as long as a small product.
std::uint64_t EngineDevices::measured_host_bytes(bool stays_on_device) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (!stays_on_device || host_bytes_ == 0 || now - host_measured_ > std::chrono::seconds(1)) {
    host_bytes_ = available_memory_bytes() + spare_bytes();
    host_measured_ = now;
  }
  return host_bytes_;
}

plan::Gpu EngineDevices::describe_gpu(const cuda::DeviceContext& device, MemoryShare& share, bool brings_memory) const {
  plan::Gpu gpu = cuda::describe(device, brings_memory);
  gpu.number = shown_gpu(gpu.number);
  gpu.bytes = share.device_limit_bytes([&] { return std::min(limit_bytes(gpu.bytes), gpu.bytes); });
  return gpu;
}

/// The devices that a product may use. What those are like that have not been started is not known yet. The start of
/// the first one is charged to the first product, less what earlier ones have lost without it: many products of an
/// engine are worth a start that one is not.
std::vector<plan::Gpu> EngineDevices::expect_gpus(MemoryShare& share) const {
  const Contexts started = this->started();
  std::vector<plan::Gpu> gpus(num_expected());
  for (std::size_t x = 0; x < gpus.size(); ++x) {
    gpus[x] = {.number = static_cast<int>(x),
               .bytes = limit_bytes(kUnseenDeviceBytes),
               .has_dense_tensor = true,
               .start_s = x == 0               ? start_s()
                          : x < started.size() ? 0
                                               : plan::kMoreDeviceStartS};
  }
  if (!started.empty()) gpus.front() = describe_gpu(*started.front(), share);
  return gpus;
}

/// The memory of device x (not of the first one, which has the engine's own budget).
MemoryBudget& EngineDevices::budget_of(std::size_t x) {
  const std::lock_guard lock(mutex_);
  return budgets_.at(x - 1);
}

Backend EngineDevices::insisted_backend(const ProductOptions& product) const {
  const Backend wanted = wanted_backend(product);
  if (wanted == Backend::cpu && are_always_shared()) {
    throw UsageError(kDevices, "belongs to backend cuda, not cpu", "leave one of the two out");
  }
  return wanted == Backend::automatic && are_named() ? Backend::cuda : wanted;
}

plan::Limits EngineDevices::choose(const Inputs& inputs, const ProductOptions& product, const ProductRecord& record,
                                   const std::string& why_not_cuda, std::list<MemoryShare>& more_shares,
                                   cuda::DeviceRun& run) {
  MemoryShare& share = *run.memory;
  plan::Limits limits =
      product_limits({options_, product},
                     share.host_limit_bytes([&] { return limit_bytes(measured_host_bytes(record.stays_on_device)); }));
  limits.backend = insisted_backend(product);
  limits.discards_result = record.discards_result;
  limits.why_no_gpu = why_not_cuda;
  limits.gpu_failed = !why_not_cuda.empty();
  const bool is_open = limits.backend == Backend::automatic && why_not_cuda.empty() &&
                       (!started().empty() || cuda::may_start(limits.why_no_gpu));
  std::size_t num_devices = 1;
  if (is_open || (limits.backend == Backend::cuda && !are_named() && !record.stays_on_device && num_expected() > 1)) {
    plan::Limits of_all = limits;
    of_all.gpus = expect_gpus(share);
    const plan::Choice expected =
        is_open ? choose_backend(inputs, of_all, *run.workers) : plan::decide(expected_of(inputs), of_all);
    num_devices = std::max<std::size_t>(1, expected.devices.size());
    if (is_open) {
      limits.backend = expected.backend;
      limits.why_backend = expected.why_backend;
    }
    if (is_open && expected.backend == Backend::cpu && expected.cuda_s > 0) {
      const std::lock_guard lock(mutex_);
      lost_s_ += std::max(0.0, expected.cpu_s - expected.cuda_s + of_all.gpus.front().start_s);
    }
  }
  limits.shares_always = true;  // it has been decided which
  if (limits.backend != Backend::cuda) return limits;
  std::jthread prefetching;  // asks for the inputs: the first CUDA product of a process takes 0.2 s to start
  if (started().empty()) {
    prefetching = start_thread([inputs] {
      try {
        inputs.a.prefetch();
        inputs.b.prefetch();
      } catch (...) {  // reading says what is wrong
      }
    });
  }
  Contexts devices = start(static_cast<unsigned>(num_devices));
  if (record.stays_on_device) devices.resize(1);  // which holds the operands
  for (const auto& device : devices) {
    const bool is_first = limits.gpus.empty();
    MemoryShare& of_device = is_first ? share : more_shares.emplace_back(budget_of(limits.gpus.size()));
    limits.gpus.push_back(describe_gpu(*device, of_device, record.brings_memory()));
    if (is_first) {
      run.device = device.get();
    } else {
      run.more_devices.push_back({.device = device.get(), .memory = &of_device});
    }
  }
  return limits;
}

}  // namespace spmm
