// Events of all threads put together: intervals of stages and lanes.
#include "base/run/trace_log.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace spmm {
namespace {

std::atomic<std::uint64_t> num_logs{0};

/// Where the calling thread wrote last.
struct LastLane {
  std::uint64_t log = 0;
  TraceLane* lane = nullptr;
};
thread_local LastLane last_lane;

void join(TraceEvent& before, const TraceEvent& event) {
  before.end_ns = event.end_ns;
  before.work.bytes += event.work.bytes;
  before.work.pairs += event.work.pairs;
  before.work.panel = std::min(before.work.panel, event.work.panel);
  before.num += event.num;
}

/// Beginnings in order, an event before those that it contains.
bool begins_before(const TraceEvent& x, const TraceEvent& y) {
  if (x.begin_ns != y.begin_ns) return x.begin_ns < y.begin_ns;
  return x.end_ns != y.end_ns ? x.end_ns > y.end_ns : x.depth < y.depth;
}

}  // namespace

std::string_view TraceLane::current() const {
  return open_ == nullptr ? std::string_view{} : open_->name_;
}

/// The one before may contain others, the new one contains none: their parent would stand between them.
bool TraceLane::joins(const TraceEvent& before, const TraceEvent& event) const {
  return before.depth == event.depth && before.name == event.name && event.end_ns - before.begin_ns <= resolution_ns_ &&
         event.begin_ns - before.end_ns <= resolution_ns_ / 4;
}

void TraceLane::add(const TraceEvent& event) {
  if (!events_.empty() && joins(events_.back(), event)) return join(events_.back(), event);
  if (events_.size() == events_.capacity() && !grow()) make_room();
  events_.push_back(event);
}

void TraceLane::coarsen(std::int64_t resolution_ns) {
  resolution_ns_ = std::max(resolution_ns_, resolution_ns);
  if (events_.empty()) return;
  std::size_t last = 0;
  for (std::size_t x = 1; x < events_.size(); ++x) {
    if (joins(events_[last], events_[x])) {
      join(events_[last], events_[x]);
    } else {
      events_[++last] = events_[x];
    }
  }
  events_.resize(last + 1);
}

/// Only events that contain none: a parent that went would leave children of two parents side by side.
void TraceLane::drop_short() {
  std::size_t kept = 0;
  for (std::size_t x = 0; x < events_.size(); ++x) {
    const TraceEvent event = events_[x];
    const bool has_children = kept > 0 && events_[kept - 1].depth > event.depth;
    if (!has_children && event.end_ns - event.begin_ns < resolution_ns_ / 4) {
      num_dropped_ += event.num;
    } else {
      events_[kept++] = event;
    }
  }
  events_.resize(kept);
}

void TraceLane::make_room() {
  const std::size_t half = events_.capacity() / 2;
  while (events_.size() > half) {
    coarsen(2 * resolution_ns_);
    if (events_.size() > half) drop_short();
  }
}

/// False: the buffer is as large as it may be, or as there is memory for.
bool TraceLane::grow() {
  if (events_.capacity() >= kMaxEvents) return false;
  try {
    events_.reserve(2 * events_.capacity());
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

TraceTrack TraceLane::take() {
  TraceTrack track{.owner = {}, .name = name_, .events = std::move(events_), .num_dropped = num_dropped_};
  std::sort(track.events.begin(), track.events.end(), begins_before);
  events_ = {};
  return track;
}

TraceLog::TraceLog(Clock::time_point start) : start_(start), id_(++num_logs) {
  lanes_.emplace_back("main");
  of_threads_.emplace_back(std::this_thread::get_id(), &lanes_.front());
}

TraceLane* TraceLog::lane(const char* role) noexcept {
  if (last_lane.log == id_) return last_lane.lane;
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(of_threads_.begin(), of_threads_.end(),
                                  [](const auto& one) { return one.first == std::this_thread::get_id(); });
  if (known != of_threads_.end()) {
    last_lane = {.log = id_, .lane = known->second};
    return last_lane.lane;
  }
  try {
    auto number =
        std::find_if(num_of_role_.begin(), num_of_role_.end(), [&](const auto& one) { return one.first == role; });
    if (number == num_of_role_.end()) number = num_of_role_.insert(number, {role, 0});
    of_threads_.reserve(of_threads_.size() + 1);
    TraceLane& made = lanes_.emplace_back(std::string(role) + " " + std::to_string(++number->second));
    of_threads_.emplace_back(std::this_thread::get_id(), &made);
    last_lane = {.log = id_, .lane = &made};
    return &made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void TraceLog::add_track(TraceTrack track) {
  const std::lock_guard lock(mutex_);
  for (TraceTrack& known : tracks_) {
    if (known.device != track.device || known.name != track.name) continue;
    known.events.insert(known.events.end(), track.events.begin(), track.events.end());
    return;
  }
  tracks_.push_back(std::move(track));
}

Trace TraceLog::take(std::int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  Trace trace{.end_ns = end_ns};
  for (TraceLane& lane : lanes_) {
    lane.coarsen(kNsPerEvent * static_cast<std::int64_t>(lanes_.size()));
    trace.tracks.push_back(lane.take());
  }
  for (TraceTrack& track : tracks_) {
    nest(track.events, end_ns);
    trace.tracks.push_back(std::move(track));
  }
  tracks_.clear();
  return trace;
}

void nest(std::vector<TraceEvent>& events, std::int64_t end_ns) {
  for (TraceEvent& event : events) {
    event.begin_ns = std::clamp<std::int64_t>(event.begin_ns, 0, end_ns);
    event.end_ns = std::clamp(event.end_ns, event.begin_ns, end_ns);
  }
  std::sort(events.begin(), events.end(), begins_before);
  std::vector<std::int64_t> open;  // ends of the events that contain the next one, innermost last
  for (TraceEvent& event : events) {
    while (!open.empty() && open.back() <= event.begin_ns) open.pop_back();
    if (!open.empty()) event.end_ns = std::min(event.end_ns, open.back());
    event.depth = static_cast<std::uint32_t>(open.size());
    open.push_back(event.end_ns);
  }
}

void TraceSpan::end() noexcept {
  lane_->open_ = outer_;
  --lane_->depth_;
  lane_->add({.name = name_, .begin_ns = begin_ns_, .end_ns = log_->now(), .work = work_, .depth = lane_->depth_});
}

}  // namespace spmm
