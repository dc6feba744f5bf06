// A product on several devices of this process.
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/workers.hpp"
#include "cuda/common_output.hpp"
#include "cuda/device_errors.hpp"
#include "cuda/pipeline.hpp"

namespace spmm::cuda {
namespace {

/// Ends a pipeline with its device current.
struct OnItsDevice {
  int device = 0;

  void operator()(Pipeline* pipeline) const noexcept {
    try {
      const DeviceGuard guard(device);
      delete pipeline;
    } catch (...) {  // no device to give anything back to
    }
  }
};

/// One product on several devices.
class SharedProduct {
 public:
  SharedProduct(const Source& a, const Source& b, Sink& sink, const plan::Execution& expected,
                const plan::Decide& decide, const Run& run)
      : a_(a),
        b_(b),
        run_(run),
        uses_{{.device = run.device, .memory = run.memory}},
        output_(sink, static_cast<std::uint32_t>(run.more_devices.size() + 1), run) {
    uses_.insert(uses_.end(), run.more_devices.begin(), run.more_devices.end());
    for (const DeviceUse& use : uses_) {
      const int device = use.device->device();
      naming_device(*use.device, [&] {
        const DeviceGuard guard(device);
        pipelines_.emplace_back(new Pipeline(use, expected, decide, run), OnItsDevice{device});
      });
    }
  }

  ProductStats run(plan::Execution& execution) {
    {
      std::vector<UploadTarget> targets;
      for (const auto& pipeline : pipelines_) targets.push_back(pipeline->upload_target());
      parsed_ = upload(a_, b_, pipelines_.front()->ring(), targets, run_);
    }
    stats_.resize(uses_.size());
    compute_on_all();
    output_.rethrow_failure();
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
    return total(execution);
  }

 private:
  /// A thread for each device but the first, which has this one.
  void compute_on_all() {
    std::vector<std::jthread> threads;
    for (std::size_t d = 1; d < uses_.size(); ++d) {
      threads.push_back(start_thread([this, d] { compute(d); }));
      if (threads.back().joinable()) continue;
      output_.fail(std::make_exception_ptr(DeviceError(text("GPU ", uses_[d].device->device()),
                                                       "the system starts no thread for it",
                                                       "raise the limit of threads, or use one device")));
      break;
    }
    compute(0);
  }

  /// The share of one device. Throws nothing.
  void compute(std::size_t d) noexcept {
    try {
      const DeviceGuard guard(uses_[d].device->device());
      naming_device(*uses_[d].device, [&] {
        OperandSide side_a(a_, false, false);
        OperandSide side_b(b_, true, false);
        DeviceOutput output(output_, static_cast<std::uint32_t>(d), output_record_bytes(a_.header().m));
        stats_[d] = pipelines_[d]->run(std::move(parsed_[d]), side_a, side_b, output);
      });
    } catch (...) {
      output_.fail(std::current_exception());
    }
  }

  /// What the devices did together.
  ProductStats total(plan::Execution& execution) const {
    execution = pipelines_.front()->execution();
    ProductStats all = stats_.front();
    all.num_blocks = 0;
    all.num_panels = 0;
    execution.panels.clear();
    for (std::size_t d = 0; d < stats_.size(); ++d) {
      const ProductStats& one = stats_[d];
      DeviceShare share{.number = uses_[d].device->device(),
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
      all.num_panels += one.num_panels;
      all.peak_device_bytes = std::max(all.peak_device_bytes, one.peak_device_bytes);
      all.shares.push_back(std::move(share));
    }
    execution.expected_panels = execution.panels.size();
    all.device = name_of_all();
    return all;
  }

  /// "2 x NVIDIA H200", or the names of different ones.
  [[nodiscard]] std::string name_of_all() const {
    std::string names = stats_.front().device;
    bool alike = true;
    for (std::size_t d = 1; d < stats_.size(); ++d) {
      alike &= stats_[d].device == stats_.front().device;
      names += " + " + stats_[d].device;
    }
    return alike ? text(stats_.size(), " x ", stats_.front().device) : names;
  }

  const Source& a_;
  const Source& b_;
  const Run& run_;
  std::vector<DeviceUse> uses_;
  CommonOutput output_;
  std::vector<std::unique_ptr<Pipeline, OnItsDevice>> pipelines_;
  std::vector<ParsedPair> parsed_;  // goes before the memory of the pipelines
  std::vector<ProductStats> stats_;
  std::vector<double> multiply_s_;
};

}  // namespace

ProductStats multiply_on_all(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                             const plan::Decide& decide, const Run& run) {
  const DeviceGuard guard(run.device->device());  // some device is current wherever buffers go
  return SharedProduct(a, b, sink, execution, decide, run).run(execution);
}

}  // namespace spmm::cuda
