// A product on several devices of this process.
#include <utility>
#include <vector>

#include "cuda/output/common_output.hpp"
#include "cuda/pipeline.hpp"
#include "cuda/several/pipelines.hpp"

namespace spmm::cuda {
namespace {

/// One product whose rows several devices share.
class SharedProduct {
 public:
  SharedProduct(const Source& a, const Source& b, Sink& sink, const plan::Execution& expected,
                const plan::Decide& decide, const DeviceRun& run)
      : a_(a),
        b_(b),
        run_(run),
        output_(sink, static_cast<std::uint32_t>(run.more_devices.size() + 1), run),
        devices_(expected, decide, run) {}

  ProductStats run(plan::Execution& execution) {
    {
      const std::vector<UploadTarget> targets = devices_.upload_targets();
      parsed_ = upload(a_, b_, devices_.pipeline(0).ring(), targets, run_);
    }
    const std::vector<ProductStats> stats = devices_.on_all([this](std::size_t d) { return compute(d); }, output_);
    return devices_.total(stats, stats.front().pairs, execution);
  }

 private:
  /// The share of one device.
  ProductStats compute(std::size_t d) {
    DeviceOutput output(output_, static_cast<std::uint32_t>(d), output_record_bytes(a_.header().m));
    return devices_.pipeline(d).run(std::move(parsed_[d]), a_, b_, output);
  }

  const Source& a_;
  const Source& b_;
  const DeviceRun& run_;
  CommonOutput output_;
  DevicePipelines devices_;
  std::vector<ParsedOperands> parsed_;  // goes before the memory of the pipelines
};

}  // namespace

ProductStats multiply_on_all(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                             const plan::Decide& decide, const DeviceRun& run) {
  const DeviceGuard guard(run.device->device());  // some device is current wherever buffers go
  return SharedProduct(a, b, sink, execution, decide, run).run(execution);
}

}  // namespace spmm::cuda
