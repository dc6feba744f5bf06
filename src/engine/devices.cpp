// Starting devices, named ones or as many as pay.
#include "engine/devices.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "plan/models/run_models.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr const char* kDevices = "EngineOptions::devices";

}  // namespace

EngineDevices::EngineDevices(const EngineOptions& options) : wanted_(options.device), named_(options.devices) {
  check_device_list(named_, wanted_);
}

EngineDevices::Contexts EngineDevices::started() const {
  const std::lock_guard lock(mutex_);
  return contexts_;
}

unsigned EngineDevices::num_expected() const {
  if (wanted_ >= 0 || local_rank()) return 1;
  return static_cast<unsigned>(std::max<std::size_t>(1, visible_gpus().size()));
}

EngineDevices::Contexts EngineDevices::start(unsigned num, std::string& why_not) {
  const std::lock_guard lock(mutex_);
  if (!named_.empty()) {
    start_named(why_not);
    return contexts_;
  }
  if (contexts_.empty()) {
    std::shared_ptr<cuda::DeviceContext> first = cuda::find_device(wanted_, why_not);
    if (!first) {
      // The runtime calls a missing driver one that is too old.
      if (!cuda::build_info().empty() && !has_gpu_driver()) why_not = "there is no NVIDIA driver on this machine";
      return {};
    }
    add(std::move(first));
  }
  start_more(num);
  return {contexts_.begin(), contexts_.begin() + std::min<std::ptrdiff_t>(num, std::ssize(contexts_))};
}

void EngineDevices::start_named(std::string& why_not) {
  if (!contexts_.empty()) return;
  const int count = cuda::num_devices(why_not);
  if (count == 0) return;
  std::vector<int> numbers = named_;
  if (numbers.front() == kAllDevices) {
    numbers.resize(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  for (const int number : numbers) {
    if (number < count) continue;
    throw UsageError(kDevices, text("device ", number, " asked for, ", count, " visible"),
                     text("use numbers from 0 to ", count - 1, ", or check CUDA_VISIBLE_DEVICES"));
  }
  Contexts all;
  for (const int number : numbers) all.push_back(cuda::find_device(number, why_not));
  for (auto& one : all) add(std::move(one));
}

/// The others by their numbers. One that does not start is done without.
void EngineDevices::start_more(unsigned num) {
  std::string why_not;
  const int count = contexts_.size() < num ? cuda::num_devices(why_not) : 0;
  for (int number = 0; number < count && contexts_.size() < num; ++number) {
    const auto is_it = [&](const auto& context) { return cuda::describe(*context).number == number; };
    if (std::any_of(contexts_.begin(), contexts_.end(), is_it)) continue;
    try {
      add(cuda::find_device(number, why_not));
    } catch (const std::runtime_error&) {
      return;
    }
  }
}

void EngineDevices::add(std::shared_ptr<cuda::DeviceContext> context) {
  if (!contexts_.empty()) budgets_.emplace_back();
  contexts_.push_back(std::move(context));
}

MemoryBudget& EngineDevices::budget_of(std::size_t x) {
  const std::lock_guard lock(mutex_);
  return budgets_.at(x - 1);
}

double EngineDevices::start_s() const {
  const std::lock_guard lock(mutex_);
  return std::max(0.0, plan::kDeviceStartS - lost_s_);
}

void EngineDevices::add_lost(double seconds) {
  const std::lock_guard lock(mutex_);
  lost_s_ += std::max(0.0, seconds);
}

}  // namespace spmm
