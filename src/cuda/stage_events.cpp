#include "cuda/stage_events.hpp"

#include <algorithm>

namespace spmm::cuda {

StageEvents::StageEvents(StageHooks hooks, const Stream& stream) : hooks_(hooks) {
  zero_.record(stream);
  stream.synchronize();
}

void StageEvents::collect(StageClock& clock) {
  const std::lock_guard lock(mutex_);
  const auto since_zero = [&](const Event& event) {
    event.synchronize();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, zero_.get(), event.get()), "event time");
    return static_cast<double>(ms) * 1e-3;
  };
  for (std::size_t s = 0; s < intervals_.size(); ++s) {
    std::vector<std::pair<double, double>> spans;
    for (const auto& [begin, end] : intervals_[s]) spans.emplace_back(since_zero(begin), since_zero(end));
    std::sort(spans.begin(), spans.end());
    double busy = 0;
    double reached = 0;
    for (const auto& [begin, end] : spans) {
      busy += std::max(0.0, end - std::max(begin, reached));
      reached = std::max(reached, end);
    }
    clock.add_seconds(static_cast<Stage>(s), busy);
    intervals_[s].clear();
  }
}

}  // namespace spmm::cuda
