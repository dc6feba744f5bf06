// Time that stages spend on the device, from pairs of events.
#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/stage_clock.hpp"
#include "cuda/raii.hpp"
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
  /// (profiler ranges).
  StageEvents(StageHooks hooks, const Stream& stream);

  /// Brackets what `work` puts on the stream.
  template <class Work>
  void timed(Stage stage, const Stream& stream, Work&& work) {
    Event begin(true);
    Event end(true);
    begin.record(stream);
    {
      const Range range(hooks_, stage);
      std::forward<Work>(work)();
    }
    end.record(stream);
    const std::lock_guard lock(mutex_);
    intervals_[static_cast<std::size_t>(stage)].emplace_back(std::move(begin), std::move(end));
  }

  /// Adds all intervals to the spans, in seconds of the host's steady clock: those of several devices can be compared,
  /// but for some 20 us that waiting for the zero took. Waits for their ends.
  void collect(StageSpans& spans);

 private:
  /// A profiler range.
  class Range {
   public:
    Range(const StageHooks& hooks, Stage stage) : hooks_(hooks) {
      if (hooks_.enter != nullptr) hooks_.enter(stage_name(stage).data());
    }
    ~Range() {
      if (hooks_.leave != nullptr) hooks_.leave();
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    const StageHooks& hooks_;
  };

  using Interval = std::pair<Event, Event>;
  StageHooks hooks_;
  std::mutex mutex_;
  Event zero_{true};
  std::chrono::steady_clock::time_point zero_time_;
  std::array<std::vector<Interval>, kStageNames.size()> intervals_;
};

}  // namespace spmm::cuda
