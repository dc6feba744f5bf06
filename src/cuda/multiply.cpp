// Products of sources on one device or several, and of arrays on the device that holds them.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cuda/arrays/collector.hpp"
#include "cuda/arrays/gathered.hpp"
#include "cuda/output/downloader.hpp"
#include "cuda/pipeline.hpp"

namespace spmm::cuda {
namespace {

/// One product whose panels the devices of a run share, run.device first, or that takes and makes arrays. Each device
/// parses and sorts both operands, which are read once, and computes its panels.
class SharedProduct {
 public:
  SharedProduct(const Source& a, const Source& b, const plan::Execution& expected, const plan::Decide& decide,
                const DeviceRun& run)
      : a_(a), b_(b), run_(run), uses_{{.device = run.device, .memory = run.memory}}, guard_(run.device->device()) {
    uses_.insert(uses_.end(), run.more_devices.begin(), run.more_devices.end());
    for (std::size_t d = 0; d < uses_.size(); ++d) {
      with_device(d, [&] {
        pipelines_.emplace_back(new Pipeline(uses_[d], expected, decide, run), OnItsDevice{uses_[d].device->device()});
      });
    }
  }

  /// From sources to a sink.
  ProductStats run(Output& output, plan::Execution& execution) {
    output_.emplace(output, a_.header().m, static_cast<std::uint32_t>(uses_.size()), run_);
    parsed_ = upload(a_, b_, pipelines_, run_);
    std::vector<ProductStats> stats(uses_.size());
    {
      std::vector<std::jthread> threads;  // one for each device but the first, which has this one
      for (std::size_t d = 1; d < uses_.size(); ++d) {
        threads.push_back(start_thread([&, d] { compute(d, stats[d]); }));
        if (threads.back().joinable()) continue;
        output_->fail(std::make_exception_ptr(DeviceError(text("GPU ", shown_gpu(uses_[d].device->device())),
                                                          "the system starts no thread for it",
                                                          "raise the limit of threads, or use one device")));
        break;
      }
      compute(0, stats[0]);
    }
    output_->rethrow_failure();
    return total(stats, execution);
  }

  /// From arrays to arrays, on one device.
  ProductStats run_arrays(plan::Execution& execution) {
    const DeviceArrays& arrays = *run_.arrays;
    Pipeline& pipeline = *pipelines_.front();
    use_callers_memory(arrays, pipeline.memory());
    pipeline.memory().cut_small_buffers();
    std::optional<GatheredProducts> many;
    if (arrays.batch != nullptr) {
      many.emplace(arrays, pipeline.memory());
    } else {
      check_arrays(arrays, *run_.device);
    }
    SortedOperands parsed = read_arrays(arrays, many ? &*many : nullptr, a_.header(), pipeline.upload_target());
    if (many) many->drop_read();
    ArrayCollector collector(arrays, pipeline.memory(), pipeline.events());
    const std::vector<ProductStats> stats{pipeline.run(std::move(parsed), a_, b_, collector)};
    if (many) many->finish(pipeline.events());
    return total(stats, execution);
  }

 private:
  /// With the device current; errors name it if there are several.
  template <class Body>
  void with_device(std::size_t d, const Body& body) {
    on_device(*uses_[d].device, uses_.size() > 1, body);
  }

  /// The panels of one device.
  void compute(std::size_t d, ProductStats& stats) noexcept {
    try {
      with_device(d, [&] {
        Pipeline& pipeline = *pipelines_[d];
        Downloader downloader(*output_, static_cast<std::uint32_t>(d), a_.header().m, pipeline.ring(),
                              pipeline.events(), run_);
        stats = pipeline.run(std::move(parsed_[d]), a_, b_, downloader);
      });
    } catch (...) {
      output_->fail(std::current_exception());
    }
  }

  /// What the devices did together. Values: execution = that of the first device with the panels of all.
  ProductStats total(const std::vector<ProductStats>& stats, plan::Execution& execution) {
    ProductStats all = stats.front();
    execution = pipelines_.front()->execution();
    all.num_blocks = all.num_saturated = all.num_dropped = all.num_panels = 0;
    execution.panels.clear();
    StageSpans spans;
    for (std::size_t d = 0; d < stats.size(); ++d) {
      const ProductStats& one = stats[d];
      const auto& multiply = spans.at(static_cast<std::size_t>(Stage::multiply));
      const auto before = static_cast<std::ptrdiff_t>(multiply.size());
      with_device(d, [&] { pipelines_[d]->events().collect(spans, run_.clock.trace(), *uses_[d].device); });
      DeviceShare share{.number = shown_gpu(uses_[d].device->device()),
                        .name = one.device,
                        .share = 0,
                        .pairs = 0,
                        .num_panels = one.num_panels,
                        .num_blocks = one.num_blocks,
                        .multiply_s = busy_seconds({multiply.begin() + before, multiply.end()})};
      for (const plan::Panel& panel : pipelines_[d]->execution().panels) {
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
    add_spans(std::move(spans), run_.clock);
    all.device = names_of(stats);
    return all;
  }

  const Source& a_;
  const Source& b_;
  const DeviceRun& run_;
  std::vector<DeviceUse> uses_;
  DeviceGuard guard_;  // some device is current wherever buffers go
  std::optional<CommonOutput> output_;
  Pipelines pipelines_;
  std::vector<SortedOperands> parsed_;  // goes before the memory of the pipelines
};

}  // namespace

ProductStats multiply(const Source& a, const Source& b, Output& output, plan::Execution& execution,
                      const plan::Decide& decide, const DeviceRun& run) {
  SharedProduct product(a, b, execution, decide, run);
  return run.arrays != nullptr ? product.run_arrays(execution) : product.run(output, execution);
}

}  // namespace spmm::cuda
