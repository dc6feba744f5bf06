// Products of sources on one device or several, and of arrays on the device that holds them.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cuda/arrays/collector.hpp"
#include "cuda/output/downloader.hpp"
#include "cuda/pipeline.hpp"

namespace spmm::cuda {
namespace {

/// From sources to a sink. Each device parses and sorts both operands, which are read once, and computes its panels.
std::vector<ProductStats> multiply_sources(const Source& a, const Source& b, Output& output, const Pipelines& pipelines,
                                           const Run& run) {
  const std::uint32_t m = a.header().m;
  const auto num_devices = static_cast<std::uint32_t>(pipelines.size());
  std::vector<ProductStats> stats(num_devices);
  CommonOutput common(output, m, num_devices, run);
  std::vector<SortedOperands> parsed = upload(a, b, pipelines, run);
  const auto compute = [&](std::uint32_t d) noexcept {
    Pipeline& pipeline = *pipelines[d];
    try {
      on_device(pipeline.memory().context(), num_devices > 1, [&] {
        Downloader downloader(common, d, m, pipeline.memory().stream(), pipeline.events(), run);
        stats[d] = pipeline.run(std::move(parsed[d]), a, b, downloader);
      });
    } catch (...) {
      common.fail(std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;  // one for each device but the first, which has this one
    try {
      for (std::uint32_t d = 1; d < num_devices; ++d) {
        threads.push_back(start_device_thread(pipelines[d]->memory().context(), [&, d] { compute(d); }));
      }
    } catch (...) {
      common.fail(std::current_exception());
    }
    compute(0);
  }
  common.rethrow_failure();
  return stats;
}

/// From arrays to arrays.
ProductStats multiply_arrays(const Source& a, const Source& b, const DeviceArrays& arrays, Pipeline& pipeline) {
  DeviceMemory& memory = pipeline.memory();
  memory.cut_small_buffers();
  ArrayOperands operands(arrays, memory);
  ArrayCollector collector(arrays, memory, pipeline.events());
  const ProductStats stats = pipeline.run(operands.read(a.header(), pipeline.events()), a, b, collector);
  operands.finish(pipeline.events());
  return stats;
}

/// What the devices did together. Values: execution = that of the first device with the panels of all.
ProductStats total(const std::vector<ProductStats>& stats, const Pipelines& pipelines, const Run& run,
                   plan::Choice& execution) {
  ProductStats all = stats.front();
  execution = pipelines.front()->execution();
  all.num_blocks = all.num_saturated = all.num_dropped = all.num_panels = 0;
  execution.panels.clear();
  StageSpans spans;
  for (std::size_t d = 0; d < stats.size(); ++d) {
    const ProductStats& one = stats[d];
    const DeviceContext& context = pipelines[d]->memory().context();
    const auto& multiply = spans.at(static_cast<std::size_t>(Stage::multiply));
    const auto before = static_cast<std::ptrdiff_t>(multiply.size());
    on_device(context, stats.size() > 1, [&] { pipelines[d]->events().collect(spans, run.clock.trace(), context); });
    DeviceShare share{.number = shown_gpu(context.device()),
                      .name = one.device,
                      .share = 0,
                      .pairs = 0,
                      .num_panels = one.num_panels,
                      .num_blocks = one.num_blocks,
                      .multiply_s = busy_seconds({multiply.begin() + before, multiply.end()})};
    for (const plan::Panel& panel : pipelines[d]->execution().panels) {
      share.pairs += panel.num_pairs;
      execution.panels.push_back(panel);
    }
    if (all.pairs != 0) share.share = static_cast<double>(share.pairs) / static_cast<double>(all.pairs);
    all.num_blocks += one.num_blocks;
    all.num_saturated += one.num_saturated;
    all.num_dropped += one.num_dropped;
    all.num_panels += one.num_panels;
    all.peak_device_bytes = std::max(all.peak_device_bytes, one.peak_device_bytes);
    if (stats.size() > 1) all.shares.push_back(std::move(share));
  }
  add_spans(std::move(spans), run.clock);
  all.device = names_of(stats);
  return all;
}

}  // namespace

ProductStats multiply(const Source& a, const Source& b, Output& output, plan::Choice& execution, const DeviceRun& run) {
  const DeviceGuard guard(run.device->device());  // some device is current wherever buffers go
  std::vector<DeviceUse> uses{{.device = run.device, .memory = run.memory}};
  uses.insert(uses.end(), run.more_devices.begin(), run.more_devices.end());
  Pipelines pipelines;
  for (const DeviceUse& use : uses) {
    on_device(*use.device, uses.size() > 1, [&] {
      pipelines.push_back({new Pipeline(use, execution, run), {use.device->device()}});
    });
  }
  std::vector<ProductStats> stats;
  if (run.arrays != nullptr) {
    stats.push_back(multiply_arrays(a, b, *run.arrays, *pipelines.front()));
  } else {
    stats = multiply_sources(a, b, output, pipelines, run);
  }
  return total(stats, pipelines, run, execution);
}

}  // namespace spmm::cuda
