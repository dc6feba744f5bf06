// Time that stages spend on the device, from pairs of events.
#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/run/stage_clock.hpp"
#include "cuda/device/raii.hpp"
#include "spmm/report.hpp"

namespace spmm::cuda {

/// Begins and ends in seconds, of each stage.
using StageSpans = std::array<std::vector<std::pair<double, double>>, kStageNames.size()>;

/// The length of the union of some spans, in seconds.
double busy_seconds(std::vector<std::pair<double, double>> spans);

/// Adds the length of the union of each stage's spans to the clock.
void add_spans(StageSpans spans, StageClock& clock);

/// Collects intervals per stage.
/// Threads: any. Memory: two events per interval until collect(). Devices: all work on one of them.
class StageEvents {
 public:
  /// The zero of all intervals is now, on an idle stream. The hooks are called around the work of each interval
  /// (profiler ranges). Values: is_timed = false: nothing is timed, for work that may be captured in a graph, or whose
  /// times are not wanted.
  StageEvents(StageHooks hooks, const Stream& stream, bool is_timed);

  /// Brackets what `work` puts on the stream. Values: what = bytes that it moves.
  template <class Work>
  void timed(Stage stage, const Stream& stream, Work&& work, const StageWork& what = {}) {
    if (!zero_) {
      const Range range(hooks_, stage, what);
      return std::forward<Work>(work)();
    }
    Event begin(true);
    Event end(true);
    const StageWork known = work_of(stage, stream, what);
    begin.record(stream);
    {
      const Range range(hooks_, stage, known);
      std::forward<Work>(work)();
    }
    end.record(stream);
    const std::lock_guard lock(mutex_);
    intervals_[static_cast<std::size_t>(stage)].push_back({std::move(begin), std::move(end), stream.get(), known});
  }

  /// What follows on the stream belongs to this panel; its pairs count with the next interval of stage multiply.
  void begin_panel(const Stream& stream, const StageWork& panel);

  /// Adds all intervals to the spans, in seconds of the host's steady clock: those of several devices can be compared,
  /// but for some 20 us that waiting for the zero took. With a trace, each stream gives it a track. Waits for their
  /// ends.
  void collect(StageSpans& spans, TraceLog* trace, const DeviceContext& context);

 private:
  /// A profiler range.
  class Range {
   public:
    Range(const StageHooks& hooks, Stage stage, const StageWork& work) : hooks_(hooks) {
      if (hooks_.enter != nullptr) hooks_.enter(stage_name(stage).data(), work);
    }
    ~Range() {
      if (hooks_.leave != nullptr) hooks_.leave();
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    const StageHooks& hooks_;
  };

  struct Interval {
    Event begin;
    Event end;
    cudaStream_t stream;
    StageWork work;
  };

  StageWork work_of(Stage stage, const Stream& stream, StageWork what);

  StageHooks hooks_;
  std::mutex mutex_;
  std::optional<Event> zero_;  // if anything is timed
  std::chrono::steady_clock::time_point zero_time_;
  std::array<std::vector<Interval>, kStageNames.size()> intervals_;
  cudaStream_t panel_stream_ = nullptr;
  StageWork panel_{};
};

}  // namespace spmm::cuda
