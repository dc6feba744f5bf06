// What one device does for a product: sort, count, have the exact decision made, then panel by panel multiply and
// compact, while earlier panels leave.
#pragma once

#include <cstdint>
#include <memory>

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
        events_(stage_hooks(), stream_, is_timed(run)) {}

  /// Where the operands are uploaded to, and the pinned slots of this device.
  [[nodiscard]] UploadTarget upload_target() { return {.memory = memory_, .events = events_}; }
  [[nodiscard]] PinnedRing& ring() { return ring_; }

  /// Allocates, if there is room, for a sort that is put on the stream while records are still on their way.
  void prepare_sort(const ParsedOperands& parsed, const MatrixHeader& a, const MatrixHeader& b);
  /// Puts that sort, and what goes along with it, on the stream.
  void queue_sort(const ParsedOperands& parsed);

  /// From parsed operands to the last panel taken. Pairs are those of the whole product, blocks and panels those of
  /// this device.
  ProductStats run(ParsedOperands parsed, const Source& a, const Source& b, PanelTaker& taker);

  /// Operands sorted by row, and what has been counted; nothing is decided.
  [[nodiscard]] SortedOperands sort_and_count(ParsedOperands parsed, const Source& a, const Source& b);

  /// Operands as the exact decision wants them, and what has been counted. Values: keeps_order = for other values of
  /// the same pattern.
  struct Arranged {
    plan::Statistics statistics{};
    DeviceOperands operands{};
  };
  [[nodiscard]] Arranged arrange(ParsedOperands parsed, const Source& a, const Source& b, bool keeps_order = false);
  /// The multiplier of what has been decided. It must not outlive the operands, nor the pipeline.
  [[nodiscard]] std::unique_ptr<Multiplier> multiplier_of(const DeviceOperands& operands,
                                                          unsigned long long* num_saturated);

  [[nodiscard]] DeviceMemory& memory() { return memory_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] StageEvents& events() { return events_; }

  /// What ran: the exact decision, with the panels of this device.
  [[nodiscard]] const plan::Execution& execution() const { return execution_; }

 private:
  /// Not if times are not wanted, or of a plan, whose work may be captured in a graph.
  static bool is_timed(const DeviceRun& run) {
    if (run.arrays == nullptr) return true;
    return !run.arrays->is_pattern && (run.arrays->is_timed || run.clock.trace() != nullptr);
  }
  /// What the plan has counted for the build and is not in use. Values: side = of blocks as kernels read them.
  [[nodiscard]] std::uint64_t build_room(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t side) const;
  bool decide_anew(const plan::Statistics& more);
  TileMaps count_tiles_of(const SortedOperands& sorted, plan::Statistics& statistics);
  void decide(const plan::Statistics& statistics);
  void run_panels(const Arranged& product, PanelTaker& taker, ProductStats& stats);

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

}  // namespace spmm::cuda
