// Pipelines of several devices: threads, times, what they did together.
#include "cuda/several/pipelines.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/run/workers.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"

namespace spmm::cuda {
namespace {

/// "2 x NVIDIA H200", or the names of different ones.
std::string name_of_all(const std::vector<ProductStats>& stats) {
  std::string names = stats.front().device;
  bool alike = true;
  for (std::size_t d = 1; d < stats.size(); ++d) {
    alike &= stats[d].device == stats.front().device;
    names += " + " + stats[d].device;
  }
  return alike ? text(stats.size(), " x ", stats.front().device) : names;
}

}  // namespace

void DevicePipelines::OnItsDevice::operator()(Pipeline* pipeline) const noexcept {
  try {
    const DeviceGuard guard(device);
    delete pipeline;
  } catch (...) {  // no device to give anything back to
  }
}

DevicePipelines::DevicePipelines(const plan::Execution& expected, const plan::Decide& decide, const DeviceRun& run)
    : run_(run), uses_{{.device = run.device, .memory = run.memory}} {
  uses_.insert(uses_.end(), run.more_devices.begin(), run.more_devices.end());
  for (const DeviceUse& use : uses_) {
    const int device = use.device->device();
    naming_device(*use.device, [&] {
      const DeviceGuard guard(device);
      pipelines_.emplace_back(new Pipeline(use, expected, decide, run), OnItsDevice{device});
    });
  }
}

std::vector<UploadTarget> DevicePipelines::upload_targets() {
  std::vector<UploadTarget> targets;
  for (const auto& pipeline : pipelines_) targets.push_back(pipeline->upload_target());
  return targets;
}

void DevicePipelines::start_all(const std::function<void(std::size_t d)>& compute,
                                const std::function<void(std::exception_ptr)>& fail) {
  std::vector<std::jthread> threads;
  for (std::size_t d = 1; d < uses_.size(); ++d) {
    threads.push_back(start_thread([&, d] { compute_one(d, compute, fail); }));
    if (threads.back().joinable()) continue;
    fail(std::make_exception_ptr(DeviceError(text("GPU ", shown_gpu(uses_[d].device->device())),
                                             "the system starts no thread for it",
                                             "raise the limit of threads, or use one device")));
    break;
  }
  compute_one(0, compute, fail);
}

void DevicePipelines::compute_one(std::size_t d, const std::function<void(std::size_t d)>& compute,
                                  const std::function<void(std::exception_ptr)>& fail) const noexcept {
  try {
    const DeviceGuard guard(uses_[d].device->device());
    naming_device(*uses_[d].device, [&] { compute(d); });
  } catch (...) {
    fail(std::current_exception());
  }
}

void DevicePipelines::collect() {
  StageSpans spans;
  for (std::size_t d = 0; d < uses_.size(); ++d) {
    const DeviceGuard guard(uses_[d].device->device());
    StageSpans of_device;
    pipelines_[d]->collect(of_device);
    multiply_s_.push_back(busy_seconds(of_device.at(static_cast<std::size_t>(Stage::multiply))));
    for (std::size_t s = 0; s < spans.size(); ++s) {
      spans.at(s).insert(spans.at(s).end(), of_device.at(s).begin(), of_device.at(s).end());
    }
  }
  add_spans(std::move(spans), run_.clock);
}

ProductStats DevicePipelines::total(const std::vector<ProductStats>& stats, std::uint64_t num_pairs,
                                    plan::Execution& execution) const {
  execution = pipelines_.front()->execution();
  ProductStats all = stats.front();
  all.pairs = num_pairs;
  all.num_blocks = 0;
  all.num_saturated = 0;
  all.num_panels = 0;
  execution.panels.clear();
  for (std::size_t d = 0; d < stats.size(); ++d) {
    const ProductStats& one = stats[d];
    DeviceShare share{.number = shown_gpu(uses_[d].device->device()),
                      .name = one.device,
                      .share = 0,
                      .pairs = 0,
                      .num_panels = one.num_panels,
                      .num_blocks = one.num_blocks,
                      .multiply_s = multiply_s_[d]};
    for (const plan::Panel& panel : pipelines_[d]->execution().panels) {
      share.pairs += panel.num_pairs;
      execution.panels.push_back(panel);
    }
    if (all.pairs != 0) share.share = static_cast<double>(share.pairs) / static_cast<double>(all.pairs);
    all.num_blocks += one.num_blocks;
    all.num_saturated += one.num_saturated;
    all.num_panels += one.num_panels;
    all.peak_device_bytes = std::max(all.peak_device_bytes, one.peak_device_bytes);
    all.shares.push_back(std::move(share));
  }
  execution.expected_panels = execution.panels.size();
  all.device = name_of_all(stats);
  return all;
}

}  // namespace spmm::cuda
