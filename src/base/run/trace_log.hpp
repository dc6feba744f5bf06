// Collects a trace while a product runs: a buffer for each thread, no lock and no text.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "spmm/trace.hpp"

namespace spmm {

class TraceSpan;

/// The events of one thread, in the order of their ends. Threads: that one alone, until it has nothing to do any more.
/// Memory: kFirstEvents events, taken at the beginning, then up to kMaxEvents if there is memory. Neighbours of one
/// name are joined where together they are shorter than the resolution; a full buffer doubles the resolution until it
/// is half empty, and drops what is still shorter than a quarter of it.
class TraceLane {
 public:
  static constexpr std::size_t kMaxEvents = 4096;
  static constexpr std::size_t kFirstEvents = 512;  ///< small enough to be had without asking the system for pages
  static constexpr std::int64_t kResolutionNs = 100'000;  ///< at the beginning

  explicit TraceLane(std::string name) : name_(std::move(name)) { events_.reserve(kFirstEvents); }

  /// Name of the interval that is open now; "" = none.
  [[nodiscard]] std::string_view current() const;

  /// An event that has ended; none that it contains ends later. Values: depth = number of those that contain it.
  void add(const TraceEvent& event);

  /// Joins events up to this resolution.
  void coarsen(std::int64_t resolution_ns);

  /// The events in the order of their beginnings; none are left here.
  TraceTrack take();

 private:
  friend class TraceSpan;

  [[nodiscard]] bool joins(const TraceEvent& before, const TraceEvent& event) const;
  void drop_short();
  void make_room();
  bool grow();

  std::string name_;
  std::vector<TraceEvent> events_;
  std::int64_t resolution_ns_ = kResolutionNs;
  std::uint64_t num_dropped_ = 0;
  TraceSpan* open_ = nullptr;  ///< the innermost interval
  std::uint32_t depth_ = 0;    ///< open intervals
};

/// The lanes of one product.
class TraceLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// The calling thread gets the first lane, "main".
  explicit TraceLog(Clock::time_point start);
  TraceLog(const TraceLog&) = delete;
  TraceLog& operator=(const TraceLog&) = delete;

  /// The lane of the calling thread; null if there is no memory for it. Values: role = what a new lane is called,
  /// with a number behind it. Threads: any. Takes a lock when a thread asks this log after another one.
  TraceLane* lane(const char* role = "worker") noexcept;

  /// Nanoseconds since the start.
  [[nodiscard]] std::int64_t now() const { return since_start(Clock::now()); }
  [[nodiscard]] std::int64_t since_start(Clock::time_point at) const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(at - start_).count();
  }

  /// A track made elsewhere, or more of it; its events may be in any order and may overlap by what the measurement of
  /// their times is off: see nest(). Threads: any.
  void add_track(TraceTrack track);

  /// Everything, when all work has ended. Values: end_ns = the end of the run. Threads have no more events of one
  /// name in a row than one for each kNsPerEvent of the run, together and on average.
  Trace take(std::int64_t end_ns);

 private:
  static constexpr std::int64_t kNsPerEvent = 50'000;  ///< writing an event takes about 0.2 us

  Clock::time_point start_;
  std::uint64_t id_;  ///< no other log of this process has it
  std::mutex mutex_;
  // Guarded by mutex_:
  std::deque<TraceLane> lanes_;
  std::vector<std::pair<std::thread::id, TraceLane*>> of_threads_;
  std::vector<std::pair<std::string, unsigned>> num_of_role_;
  std::vector<TraceTrack> tracks_;
};

/// Orders events of one stream by their beginnings and cuts off what of an event lies behind the end of one that
/// contains its beginning; events outside [0, end_ns] are cut as well. Sets the depths.
void nest(std::vector<TraceEvent>& events, std::int64_t end_ns);

/// An interval of the calling thread. Without a log it does nothing.
/// Threads: begins and ends on one; ends before those that were begun before it on that thread.
class TraceSpan {
 public:
  /// Values: name is a literal, or lives as long.
  TraceSpan(TraceLog* log, std::string_view name, const StageWork& work = {}, const char* role = "worker") noexcept
      : lane_(log == nullptr ? nullptr : log->lane(role)), name_(name), work_(work) {
    if (lane_ == nullptr) return;
    log_ = log;
    outer_ = lane_->open_;
    lane_->open_ = this;
    ++lane_->depth_;
    begin_ns_ = log->now();
  }
  ~TraceSpan() {
    if (lane_ != nullptr) end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  /// For what is known only at the end.
  StageWork& work() { return work_; }

 private:
  friend class TraceLane;
  void end() noexcept;

  TraceLog* log_ = nullptr;
  TraceLane* lane_;
  TraceSpan* outer_ = nullptr;
  std::string_view name_;
  StageWork work_;
  std::int64_t begin_ns_ = 0;
};

}  // namespace spmm
