#include "cuda/stage_events.hpp"

#include <algorithm>

namespace spmm::cuda {

StageEvents::StageEvents(StageHooks hooks, const Stream& stream) : hooks_(hooks) {
  zero_.record(stream);
  stream.synchronize();
  zero_time_ = std::chrono::steady_clock::now();
}

void StageEvents::collect(StageSpans& spans) {
  const std::lock_guard lock(mutex_);
  const double zero = std::chrono::duration<double>(zero_time_.time_since_epoch()).count();
  const auto time_of = [&](const Event& event) {
    event.synchronize();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, zero_.get(), event.get()), "event time");
    return zero + static_cast<double>(ms) * 1e-3;
  };
  for (std::size_t s = 0; s < intervals_.size(); ++s) {
    for (const auto& [begin, end] : intervals_[s]) spans.at(s).emplace_back(time_of(begin), time_of(end));
    intervals_[s].clear();
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
