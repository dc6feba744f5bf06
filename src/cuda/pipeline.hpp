// What one device does for a product: sort, count, have the exact decision made, then panel by panel multiply and
// compact, while earlier panels leave.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/run/run.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/context.hpp"
#include "cuda/device/pinned_ring.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/multipliers/multiplier.hpp"
#include "cuda/operands/counted_sort.hpp"
#include "cuda/operands/operands.hpp"
#include "cuda/operands/upload.hpp"
#include "cuda/output/download.hpp"
#include "cuda/output/panel_output.hpp"
#include "plan/execution.hpp"

namespace spmm::cuda {

/// One device and one product. Threads: one at a time, with the device current.
class Pipeline {
 public:
  /// Values: expected = the decision made from the headers. All references must outlive it.
  Pipeline(const DeviceUse& use, const plan::Execution& expected, const plan::Decide& decide, const DeviceRun& run)
      : execution_(expected),
        decide_(decide),
        run_(run),
        context_(*use.device),
        stream_(context_),
        memory_(stream_, expected.device_limit_bytes, use.memory),
        ring_(context_, expected.num_buffers),
        events_(stage_hooks(), stream_) {
    if (run_.arrays != nullptr && run_.arrays->call.allocator.serves_workspace) {
      memory_.take_from(run_.arrays->call.allocator);
    }
  }

  /// Where the operands are uploaded to, and the pinned slots of this device.
  [[nodiscard]] UploadTarget upload_target() { return {.memory = memory_, .events = events_}; }
  [[nodiscard]] PinnedRing& ring() { return ring_; }

  /// Allocates, if there is room, for a sort that is put on the stream while records are still on their way.
  void prepare_sort(const ParsedOperands& parsed, const MatrixHeader& a, const MatrixHeader& b);
  /// Puts that sort, and what goes along with it, on the stream.
  void queue_sort(const ParsedOperands& parsed);

  /// Operands that are on the device already.
  [[nodiscard]] ParsedOperands read(const DeviceArrays& arrays, const MatrixHeader& header);

  /// From parsed operands to the last record handed over. Pairs are those of the whole product, blocks and panels those
  /// of this device.
  ProductStats run(ParsedOperands parsed, const Source& a, const Source& b, PanelOutput& output);

  /// The same up to the multiplier, for a pattern: every value counts as the largest there is, no block as zero.
  /// Operands keep the order of their blocks; nothing is timed from then on.
  struct Arranged {
    DeviceOperands operands{};
    plan::Statistics statistics{};
    std::uint32_t largest = 0;           ///< element of the arrays; 0: there were none
    DeviceBuffer<std::uint16_t> ones{};  ///< that operands in file order borrow
  };
  [[nodiscard]] Arranged arrange_pattern(ParsedOperands parsed, const Source& a, const Source& b);
  /// The multiplier of what has been decided. It must not outlive the operands, nor the pipeline.
  [[nodiscard]] std::unique_ptr<Multiplier> multiplier_of(const DeviceOperands& operands,
                                                          unsigned long long* num_saturated);

  [[nodiscard]] DeviceMemory& memory() { return memory_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] StageEvents& events() { return events_; }

  /// What ran: the exact decision, with the panels of this device.
  [[nodiscard]] const plan::Execution& execution() const { return execution_; }
  /// Adds the times of the stages on the device.
  void collect(StageSpans& spans) { events_.collect(spans, run_.clock.trace(), context_); }

 private:
  GatheredAhead gather_ahead(const ParsedOperands& parsed, const MatrixHeader& a, const MatrixHeader& b);
  SortedOperands sort_and_count(ParsedOperands parsed, const Source& a, const Source& b);
  DeviceOperands decide_and_arrange(SortedOperands sorted, plan::Statistics& statistics);
  bool decide_anew(const plan::Statistics& more);
  TileMaps count_tiles_of(SortedOperands& sorted, plan::Statistics& statistics);
  void decide(const plan::Statistics& statistics);
  [[nodiscard]] std::optional<std::uint64_t> direct_c_blocks(const Multiplier& multiplier,
                                                             const plan::Statistics& statistics) const;
  [[nodiscard]] std::unique_ptr<PanelTaker> make_taker(const Multiplier& multiplier, const plan::Statistics& statistics,
                                                       unsigned long long* num_saturated, PanelOutput& output,
                                                       std::deque<PackedPanel>& packed);
  void run_panels(const DeviceOperands& operands, const plan::Statistics& statistics, PanelOutput& output,
                  ProductStats& stats);

  plan::Execution execution_;
  const plan::Decide& decide_;
  const DeviceRun& run_;
  DeviceContext& context_;
  Stream stream_;
  DeviceMemory memory_;
  PinnedRing ring_;
  StageEvents events_;
  std::unique_ptr<CountedSort> queued_;  // last: may still write what the others own
};

/// Several devices, run.device first: each parses and sorts both operands, which are read once, and computes its share
/// of the row panels. As multiply(). Errors: those of a device name it.
ProductStats multiply_on_all(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                             const plan::Decide& decide, const DeviceRun& run);

}  // namespace spmm::cuda
