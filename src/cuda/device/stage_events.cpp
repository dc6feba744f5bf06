// Times of stages on a device, from pairs of events.
#include "cuda/device/stage_events.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "base/visible_gpus.hpp"

namespace spmm::cuda {
namespace {

/// A time that is given in seconds of the host's steady clock.
TraceLog::Clock::time_point host_time(double s) {
  return TraceLog::Clock::time_point(
      std::chrono::duration_cast<TraceLog::Clock::duration>(std::chrono::duration<double>(s)));
}

}  // namespace

StageEvents::StageEvents(StageHooks hooks, const Stream& stream, bool is_timed) : hooks_(hooks) {
  if (!is_timed) return;
  zero_.emplace(true).record(stream);
  stream.synchronize();
  zero_time_ = std::chrono::steady_clock::now();
}

void StageEvents::begin_panel(const Stream& stream, const StageWork& panel) {
  const std::lock_guard lock(mutex_);
  panel_stream_ = stream.get();
  panel_ = panel;
}

StageWork StageEvents::work_of(Stage stage, const Stream& stream, StageWork what) {
  const std::lock_guard lock(mutex_);
  if (stream.get() != panel_stream_) return what;
  what.panel = panel_.panel;
  if (stage == Stage::multiply) what.pairs = std::exchange(panel_.pairs, 0);
  return what;
}

void StageEvents::collect(StageSpans& spans, TraceLog* trace, const DeviceContext& context) {
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

double busy_seconds(std::vector<std::pair<double, double>> spans) {
  std::sort(spans.begin(), spans.end());
  double busy = 0;
  double reached = 0;
  for (const auto& [begin, end] : spans) {
    busy += std::max(0.0, end - std::max(begin, reached));
    reached = std::max(reached, end);
  }
  return busy;
}

void add_spans(StageSpans spans, StageClock& clock) {
  for (std::size_t s = 0; s < spans.size(); ++s) {
    clock.add_seconds(static_cast<Stage>(s), busy_seconds(std::move(spans.at(s))));
  }
}

}  // namespace spmm::cuda
