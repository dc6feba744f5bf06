// Collects a trace while a product runs: a list for each thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "spmm/trace.hpp"

namespace spmm {

/// The events of one thread, in the order of their ends. Threads: that one alone, until it has nothing to do any more.
struct TraceLane {
  static constexpr std::size_t kMaxEvents = 4096;

  /// Adds an event that has ended, or joins it with the last one. A full list doubles the resolution, and drops events
  /// shorter than a quarter of it, until it is half empty.
  void add(const TraceEvent& event) noexcept;

  std::thread::id thread{};
  TraceTrack track{};
  std::int64_t resolution_ns = 100'000;  ///< neighbours of one name that are shorter together are joined
  const TraceEvent* open = nullptr;      ///< the innermost interval that has not ended; null = none
};

/// The lanes of one product. Threads: any.
class TraceLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// The calling thread gets the first track, "main".
  explicit TraceLog(Clock::time_point start) : start_(start) { lane("main"); }

  /// The lane of the calling thread; null if there is no memory for it. Values: role = name of a new lane, which gets a
  /// number behind it.
  TraceLane* lane(const char* role = "worker") noexcept;

  /// Nanoseconds since the start.
  [[nodiscard]] std::int64_t since_start(Clock::time_point at) const {
    return std::chrono::nanoseconds(at - start_).count();
  }
  [[nodiscard]] std::int64_t now() const { return since_start(Clock::now()); }

  /// A track of a device stream, or more of it. Its events may be in any order, and overlap by the error of their
  /// times.
  void add_track(TraceTrack track);

  /// Everything, when all work has ended. Values: end_ns = the end of the run.
  Trace take(std::int64_t end_ns);

 private:
  Clock::time_point start_;
  std::mutex mutex_;
  std::deque<TraceLane> lanes_;
  std::vector<TraceTrack> streams_;
};

/// An interval of the calling thread. Without a log it does nothing.
/// Threads: begins and ends on one; ends before those that were begun before it on that thread.
class TraceSpan {
 public:
  /// Values: name is a literal, or lives as long.
  TraceSpan(TraceLog* log, std::string_view name, const StageWork& work = {}, const char* role = "worker") noexcept;
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  /// For what is known only at the end.
  StageWork& work() { return event_.work; }

 private:
  TraceLog* log_;
  TraceLane* lane_;
  TraceEvent event_;
  const TraceEvent* outer_ = nullptr;
};

}  // namespace spmm
