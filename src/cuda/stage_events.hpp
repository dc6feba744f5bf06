// Time that stages spend on the device, from pairs of events.
#pragma once

#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "base/stage_clock.hpp"
#include "cuda/raii.hpp"
#include "spmm/report.hpp"

namespace spmm::cuda {

/// Collects intervals per stage; a stage's time is the length of their union.
/// Threads: any. Memory: two events per interval until collect().
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

  /// Adds all intervals to the clock. Waits for their ends.
  void collect(StageClock& clock);

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
  std::array<std::vector<Interval>, kStageNames.size()> intervals_;
};

}  // namespace spmm::cuda
