// A product whose pattern is known: what stays on the device between its multiplications.
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "cuda/arrays/arrays.hpp"
#include "cuda/backend.hpp"
#include "cuda/pipeline.hpp"
#include "cuda/planned_products.hpp"
#include "kernels/blocks/arrays.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"
#include "plan/execution.hpp"

namespace spmm::cuda {
namespace {

class Planned : public PlannedProduct {
 public:
  static constexpr std::uint32_t kMaxElement = std::numeric_limits<std::uint16_t>::max();

  Planned(const Source& a, const Source& b, const plan::Execution& expected, const plan::Decide& decide,
          const DeviceRun& run)
      : run_(run), decide_(decide) {
    const DeviceGuard guard(device());
    check_arrays(*run_.arrays, *run_.device);
    kept_.emplace(DeviceUse{.device = run_.device, .memory = run_.memory}, expected, decide_, run_);
    Pipeline& pipeline = kept_->pipeline;
    use_callers_memory(*run_.arrays, pipeline.memory());
    ParsedOperands parsed = read_arrays(*run_.arrays, a.header(), pipeline.upload_target());
    const std::uint32_t largest = std::max(parsed.a.max_element, parsed.b.max_element);  // of the arrays; 0: no values
    const DeviceBuffer<std::uint16_t> ones = set_to_ones(parsed, a.header().m);  // that operands in file order borrow
    Pipeline::Arranged arranged = pipeline.arrange(std::move(parsed), a, b, true);
    pipeline.events().stop();  // nothing is timed from now on
    kept_->operands = std::move(arranged.operands);
    find_pattern(static_cast<std::uint64_t>(arranged.statistics.num_pairs));
    kept_->num_saturated = {pipeline.memory(), 1, "count"};
    if (keep_pairs(arranged.statistics)) return;
    const bool any_visits =
        std::any_of(panels().begin(), panels().end(), [](const auto& panel) { return !panel.expand; });
    if (largest != 0 && any_visits) largest_ = std::min(largest_, std::bit_ceil(largest + 1) - 1);
    const DeviceOperands& operands = kept_->operands;
    const bool is_copied = operands.m > 1 && (operands.a_numbers.size() != 0 || operands.side != operands.m);
    kept_->b_transposed = {pipeline.memory(), is_copied ? operands.b.columns.size() * block_elements() : 0, "elements"};
    kept_->largest = {pipeline.memory(), 1, "largest element"};
  }
  ~Planned() override {
    try {
      const DeviceGuard guard(device());
      kept_.reset();
    } catch (...) {  // no device to give anything back to
    }
  }

  void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c, CUstream_st* stream) override {
    if (!is_aligned(a) || !is_aligned(b) || !is_aligned(c)) {
      throw UsageError("DevicePlan::multiply", "values do not begin at a multiple of 16 bytes", "pass a copy of them");
    }
    const DeviceGuard guard(device());
    const Stream& own = kept_->pipeline.stream();
    const Event called;
    check(cudaEventRecord(called.get(), stream), "event");
    own.wait_for(called);
    if (kept_->products != nullptr) {
      kept_->products->multiply(a, b, c);
    } else if (num_blocks_ != 0) {
      take_values(a, b);
      if (largest_ < kMaxElement) {  // of the two, the device runs one
        multiply_if(0, largest_, c);
        multiply_if(largest_ + 1, kMaxElement, c);
      } else {
        multiply_if(0, kMaxElement, c);
      }
    }
    const Event complete;
    complete.record(own);
    check(cudaStreamWaitEvent(stream, complete.get()), "event");
  }

  std::uint64_t count_saturated(const std::uint32_t* c, CUstream_st* stream) override {
    const DeviceGuard guard(device());
    const Stream& own = kept_->pipeline.stream();
    const Event called;
    check(cudaEventRecord(called.get(), stream), "event");
    own.wait_for(called);
    unsigned long long* const count = kept_->num_saturated.data();
    check(cudaMemsetAsync(count, 0, sizeof *count, own.get()), "clear");
    kernels::launch_count_saturated(c, num_blocks_ * block_elements(), count, own.get());
    return fetch(count, own);
  }

 private:
  /// Everything on the device; the later goes first.
  struct Kept {
    Kept(const DeviceUse& use, const plan::Execution& expected, const plan::Decide& decide, const DeviceRun& run)
        : pipeline(use, expected, decide, run) {}
    Pipeline pipeline;
    DeviceOperands operands;
    ArrayCollector::Pattern pattern;
    DeviceBuffer<std::uint16_t> b_transposed;  // [nnzb of B, m, m]
    DeviceBuffer<std::uint32_t> largest;       // [1], element of both operands
    DeviceBuffer<unsigned long long> num_saturated;
    std::unique_ptr<Multiplier> multiplier;
    std::unique_ptr<PlannedProducts> products;  // instead of operands, pattern, and multiplier
  };

  [[nodiscard]] int device() const { return run_.device->device(); }
  [[nodiscard]] const std::vector<plan::Panel>& panels() const { return kept_->pipeline.execution().panels; }

  [[nodiscard]] std::uint64_t block_elements() const { return std::uint64_t{kept_->operands.m} * kept_->operands.m; }

  /// Every value counts as the largest there is, no block as zero, no sum of products as zero.
  DeviceBuffer<std::uint16_t> set_to_ones(ParsedOperands& parsed, std::uint32_t m) {
    const std::uint64_t most_blocks = std::max(parsed.a.keys.size(), parsed.b.keys.size());
    const Stream& stream = kept_->pipeline.stream();
    DeviceBuffer<std::uint16_t> ones(kept_->pipeline.memory(), most_blocks * m * m, "elements");
    check(cudaMemsetAsync(ones.data(), 1, ones.size() * sizeof(std::uint16_t), stream.get()), "set elements");
    for (ParsedMatrix* matrix : {&parsed.a, &parsed.b}) {
      matrix->values = DeviceBuffer<std::uint16_t>::borrow(ones.data(), matrix->keys.size() * m * m);
      matrix->max_element = kMaxElement;
      matrix->has_zeros = false;
    }
    return ones;
  }

  /// Multiplies as it is right for operands whose largest element lies between these; nothing happens for others.
  void multiply_if(std::uint32_t least, std::uint32_t most, std::uint32_t* c) {
    kept_->operands.max_element = most;
    for (std::size_t x = 0; x < panels().size(); ++x) {
      PanelTarget target = target_of(x, c);
      target.is_known = true;
      if (largest_ < kMaxElement) target.largest = kept_->largest.data();
      target.least_largest = least;
      target.most_largest = most;
      kept_->multiplier->multiply(panels()[x], target);
    }
  }

  /// Where a panel's records go: their heads are those of the pattern.
  [[nodiscard]] PanelTarget target_of(std::size_t panel, std::uint32_t* values) {
    std::uint32_t* const num_so_far = kept_->pattern.num_so_far.data() + panel;
    return {.records = kernels::records_in_arrays(kept_->pattern.heads.data(), values, kept_->operands.m),
            .num_before = num_so_far,
            .num_blocks = num_so_far + 1};
  }

  /// Multiplies blocks of ones. Errors: OutOfMemory.
  void find_pattern(std::uint64_t num_pairs) {
    Pipeline& pipeline = kept_->pipeline;
    ArrayCollector collector(*run_.arrays, pipeline.memory(), pipeline.events());
    if (!panels().empty()) {
      kept_->multiplier = pipeline.multiplier_of(kept_->operands, nullptr);
      std::uint64_t most = 0;
      for (const plan::Panel& panel : panels()) most += panel.max_c_blocks();
      if (!collector.reserve(std::min(most, num_pairs), panels().size())) {
        throw OutOfMemory("device memory for a plan", "the result does not fit at once",
                          "raise EngineOptions::memory_limit_bytes, or free device memory");
      }
      PackedPanel packing(pipeline.memory(), 0, kept_->operands.m);
      for (const plan::Panel& panel : panels()) {
        collector.wait_until_free(packing);
        kept_->multiplier->multiply(panel, packing.target);
        collector.push(packing);
      }
    }
    num_blocks_ = collector.finish();
    run_.arrays->out->values.reset();
    kept_->pattern = collector.take_pattern();
  }

  /// Keeps pairs instead of all else; returns false if there is no room for them, or other kernels are faster.
  bool keep_pairs(const plan::Statistics& statistics) {
    DeviceOperands& operands = kept_->operands;
    DeviceMemory& memory = kept_->pipeline.memory();
    const PlannedPattern pattern{.heads = kept_->pattern.heads.data(),
                                 .num_blocks = num_blocks_,
                                 .num_pairs = static_cast<std::uint64_t>(statistics.num_pairs)};
    const bool is_small =
        operands.m <= kernels::kMaxSmallSide && kept_->pipeline.execution().id == plan::KernelId::rows;
    kept_->products =
        is_small ? place_pairs(operands, pattern, memory) : list_pairs(operands, panels(), pattern, memory);
    if (kept_->products == nullptr) return false;
    kept_->multiplier.reset();
    kept_->pattern = {};
    const std::uint32_t m = kept_->operands.m;
    kept_->operands = {};
    kept_->operands.m = m;
    return true;
  }

  /// The caller's values as the kernel reads them, and their largest one if that is to decide.
  void take_values(const std::uint16_t* a, const std::uint16_t* b) {
    DeviceOperands& operands = kept_->operands;
    const Stream& stream = kept_->pipeline.stream();
    const std::uint64_t num_a = operands.a.columns.size();
    std::uint32_t* const largest = largest_ < kMaxElement ? kept_->largest.data() : nullptr;
    if (largest != nullptr) {
      check(cudaMemsetAsync(largest, 0, sizeof *largest, stream.get()), "clear");
      kernels::launch_max_element(a, num_a * block_elements(), largest, stream.get());
    }
    using Values = DeviceBuffer<std::uint16_t>;
    Values from_a = Values::borrow(const_cast<std::uint16_t*>(a), num_a * block_elements());  // never written
    if (operands.a_numbers.size() != 0) {  // blocks are found through their numbers
      operands.b_values = taken_b(b, nullptr, kept_->b_transposed, largest);
      operands.a_values = std::move(from_a);
      return;
    }
    gather(from_a, operands.a_order, operands.shape(), operands.a_values, stream);
    if (operands.m > 1 && operands.side == operands.m) {
      taken_b(b, operands.b_order.data(), operands.b_values, largest);
      return;
    }
    gather(taken_b(b, nullptr, kept_->b_transposed, largest), operands.b_order, operands.shape(), operands.b_values,
           stream);
  }

  /// Transposes the caller's blocks of B into `to`, in the order of numbers; borrows them as they are if m = 1.
  DeviceBuffer<std::uint16_t> taken_b(const std::uint16_t* b, const std::uint32_t* numbers,
                                      const DeviceBuffer<std::uint16_t>& to, std::uint32_t* largest) {
    const cudaStream_t stream = kept_->pipeline.stream().get();
    const std::uint32_t m = kept_->operands.m;
    const std::uint64_t num_blocks = kept_->operands.b.columns.size();
    if (m > 1) {
      kernels::launch_transpose_blocks({.values = b, .count = num_blocks}, numbers, m, to.data(), largest, stream);
      return to.lend();
    }
    if (largest != nullptr) kernels::launch_max_element(b, num_blocks, largest, stream);
    return DeviceBuffer<std::uint16_t>::borrow(const_cast<std::uint16_t*>(b), num_blocks);  // never written
  }

  DeviceRun run_;
  plan::Decide decide_;
  std::optional<Kept> kept_;
  std::uint64_t num_blocks_ = 0;
  // Element that products are prepared for; larger ones take longer. Listed pairs take the same time for all.
  std::uint32_t largest_ = kMaxElement;
};

}  // namespace

std::unique_ptr<PlannedProduct> plan_product(const Source& a, const Source& b, const plan::Execution& expected,
                                             const plan::Decide& decide, const DeviceRun& run) {
  return std::make_unique<Planned>(a, b, expected, decide, run);
}

}  // namespace spmm::cuda
