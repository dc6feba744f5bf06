// Time that stages spend on the device, from pairs of events.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/run/stage_clock.hpp"
#include "base/visible_gpus.hpp"
#include "cuda/device/raii.hpp"
#include "spmm/report.hpp"

namespace spmm::cuda {

/// Begins and ends in seconds, of each stage.
using StageSpans = std::array<std::vector<std::pair<double, double>>, kStageNames.size()>;

/// The length of the union of some spans, in seconds.
inline double busy_seconds(std::vector<std::pair<double, double>> spans) {
  std::sort(spans.begin(), spans.end());
  double busy = 0;
  double reached = 0;
  for (const auto& [begin, end] : spans) {
    busy += std::max(0.0, end - std::max(begin, reached));
    reached = std::max(reached, end);
  }
  return busy;
}

/// Adds the length of the union of each stage's spans to the clock.
inline void add_spans(StageSpans spans, StageClock& clock) {
  for (std::size_t s = 0; s < spans.size(); ++s) {
    clock.add_seconds(static_cast<Stage>(s), busy_seconds(std::move(spans.at(s))));
  }
}

/// Collects intervals per stage.
/// Threads: any. Memory: two events per interval until collect(). Devices: all work on one of them.
class StageEvents {
 public:
  /// The zero of all intervals is now, on an idle stream. The hooks are called around the work of each interval
  /// (profiler ranges). Values: is_timed = false: nothing is timed, for work that may be captured in a graph, or whose
  /// times are not wanted.
  StageEvents(StageHooks hooks, const Stream& stream, bool is_timed) : hooks_(hooks) {
    if (!is_timed) return;
    zero_.emplace(true).record(stream);
    stream.synchronize();
    zero_time_ = std::chrono::steady_clock::now();
  }

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
  void begin_panel(const Stream& stream, const StageWork& panel) {
    const std::lock_guard lock(mutex_);
    panel_stream_ = stream.get();
    panel_ = panel;
  }

  /// Adds all intervals to the spans, in seconds of the host's steady clock: those of several devices can be compared,
  /// but for some 20 us that waiting for the zero took. With a trace, each stream gives it a track. Waits for their
  /// ends.
  void collect(StageSpans& spans, TraceLog* trace, const DeviceContext& context) {
    const std::lock_guard lock(mutex_);
    const double zero = std::chrono::duration<double>(zero_time_.time_since_epoch()).count();
    const auto time_of = [&](const Event& event) {
      event.synchronize();
      float ms = 0;
      check(cudaEventElapsedTime(&ms, zero_->get(), event.get()), "event time");
      return zero + static_cast<double>(ms) * 1e-3;
    };
    std::map<cudaStream_t, TraceTrack> tracks;
    for (std::size_t s = 0; s < intervals_.size(); ++s) {
      for (const Interval& one : intervals_[s]) {
        const auto [begin, end] = spans.at(s).emplace_back(time_of(one.begin), time_of(one.end));
        if (trace == nullptr) continue;
        tracks[one.stream].events.push_back({.name = kStageNames.at(s),
                                             .begin_ns = trace->since_start(host_time(begin)),
                                             .end_ns = trace->since_start(host_time(end)),
                                             .work = one.work});
      }
      intervals_[s].clear();
    }
    unsigned number = 0;
    for (auto& [stream, track] : tracks) {
      track.device = shown_gpu(context.device());
      track.owner = context.properties().name;
      track.name = "stream " + std::to_string(++number);
      trace->add_track(std::move(track));
    }
  }

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

  /// A time that is given in seconds of the host's steady clock.
  static TraceLog::Clock::time_point host_time(double s) {
    return TraceLog::Clock::time_point(
        std::chrono::duration_cast<TraceLog::Clock::duration>(std::chrono::duration<double>(s)));
  }

  struct Interval {
    Event begin;
    Event end;
    cudaStream_t stream;
    StageWork work;
  };

  StageWork work_of(Stage stage, const Stream& stream, StageWork what) {
    const std::lock_guard lock(mutex_);
    if (stream.get() != panel_stream_) return what;
    what.panel = panel_.panel;
    if (stage == Stage::multiply) what.pairs = std::exchange(panel_.pairs, 0);
    return what;
  }

  StageHooks hooks_;
  std::mutex mutex_;
  std::optional<Event> zero_;  // if anything is timed
  std::chrono::steady_clock::time_point zero_time_;
  std::array<std::vector<Interval>, kStageNames.size()> intervals_;
  cudaStream_t panel_stream_ = nullptr;
  StageWork panel_{};
};

}  // namespace spmm::cuda
