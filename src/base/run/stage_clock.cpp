// Events of all threads put together.
#include "base/run/stage_clock.hpp"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

namespace spmm {
namespace {

/// Whether an event became a part of the one before it: a neighbour of the same name, short together with it.
bool join(TraceEvent& before, const TraceEvent& event, std::int64_t resolution_ns) {
  if (before.depth != event.depth || before.name != event.name) return false;
  if (event.end_ns - before.begin_ns > resolution_ns) return false;
  before.end_ns = event.end_ns;
  before.work.bytes += event.work.bytes;
  before.work.pairs += event.work.pairs;
  before.work.panel = std::min(before.work.panel, event.work.panel);
  before.num += event.num;
  return true;
}

/// Orders events by their beginnings, an event before those that it contains, and sets the depths. Cuts off what lies
/// outside [0, end_ns], and behind the end of an event that contains the beginning.
void nest(std::vector<TraceEvent>& events, std::int64_t end_ns) {
  std::sort(events.begin(), events.end(), [](const TraceEvent& x, const TraceEvent& y) {
    return std::tuple(x.begin_ns, -x.end_ns, x.depth) < std::tuple(y.begin_ns, -y.end_ns, y.depth);
  });
  std::vector<std::int64_t> open = {end_ns};  // ends of the run and of the events that contain the next one
  for (TraceEvent& event : events) {
    event.begin_ns = std::clamp<std::int64_t>(event.begin_ns, 0, end_ns);
    while (open.size() > 1 && open.back() <= event.begin_ns) open.pop_back();
    event.end_ns = std::clamp(event.end_ns, event.begin_ns, open.back());
    event.depth = static_cast<std::uint32_t>(open.size() - 1);
    open.push_back(event.end_ns);
  }
}

}  // namespace

void TraceLane::add(const TraceEvent& event) noexcept {
  std::vector<TraceEvent>& events = track.events;
  if (!events.empty() && join(events.back(), event, resolution_ns)) return;
  const std::size_t most = events.size() < kMaxEvents ? kMaxEvents : kMaxEvents / 2;
  while (events.size() > most) {
    resolution_ns *= 2;
    std::size_t kept = 0;
    for (const TraceEvent one : events) {  // an event that contains a long one is long
      if (kept > 0 && join(events[kept - 1], one, resolution_ns)) continue;
      if (one.end_ns - one.begin_ns >= resolution_ns / 4) events[kept++] = one;
    }
    events.resize(kept);
  }
  events.push_back(event);  // into memory that is there
}

TraceLane* TraceLog::lane(const char* role) noexcept try {
  const std::lock_guard lock(mutex_);
  unsigned number = 1;  // of a new lane among those of its role
  for (TraceLane& known : lanes_) {
    if (known.thread == std::this_thread::get_id()) return &known;
    if (known.track.name.starts_with(role)) ++number;
  }
  TraceLane made{.thread = std::this_thread::get_id(), .track = {.name = role}};
  if (!lanes_.empty()) made.track.name += " " + std::to_string(number);
  made.track.events.reserve(TraceLane::kMaxEvents);
  return &lanes_.emplace_back(std::move(made));
} catch (const std::bad_alloc&) {
  return nullptr;
}

void TraceLog::add_track(TraceTrack track) {
  const std::lock_guard lock(mutex_);
  for (TraceTrack& known : streams_) {
    if (known.device != track.device || known.name != track.name) continue;
    known.events.insert(known.events.end(), track.events.begin(), track.events.end());
    return;
  }
  streams_.push_back(std::move(track));
}

Trace TraceLog::take(std::int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  Trace trace{.end_ns = end_ns};
  for (TraceLane& lane : lanes_) trace.tracks.push_back(std::move(lane.track));
  trace.tracks.insert(trace.tracks.end(), streams_.begin(), streams_.end());
  for (TraceTrack& track : trace.tracks) nest(track.events, end_ns);
  return trace;
}

StageClock::Interval::Interval(TraceLog* trace, std::string_view name, const StageWork& work, const char* role) noexcept
    : trace_(trace), lane_(trace == nullptr ? nullptr : trace->lane(role)), event_{.name = name, .work = work} {
  if (lane_ == nullptr) return;
  outer_ = std::exchange(lane_->open, &event_);
  if (outer_ != nullptr) event_.depth = outer_->depth + 1;
  event_.begin_ns = trace->now();
}

StageClock::Interval::Interval(StageClock* clock, Stage stage, Part part, const StageWork& work, const char* role)
    : Interval(clock == nullptr ? nullptr : clock->trace_, stage_name(stage), work, role) {
  clock_ = clock;
  stage_ = stage;
  part_ = part;
  if (clock == nullptr) return;
  if (part != Part::frame) clock->enter(stage);
  if (part != Part::piece && clock->hooks_.enter != nullptr) clock->hooks_.enter(stage_name(stage).data(), work);
}

StageClock::Interval::~Interval() {
  if (clock_ != nullptr) {
    if (part_ != Part::piece && clock_->hooks_.leave != nullptr) clock_->hooks_.leave();
    if (part_ != Part::frame) clock_->leave(stage_);
  }
  if (lane_ == nullptr) return;
  lane_->open = outer_;
  event_.end_ns = trace_->now();
  lane_->add(event_);
}

}  // namespace spmm
