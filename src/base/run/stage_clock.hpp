// Timers of the stages of one product, and its trace: a list of intervals for each thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "spmm/report.hpp"

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

/// Called on the thread that enters and leaves a stage; used for profiler ranges. Either both are set or none.
struct StageHooks {
  void (*enter)(const char* name, const StageWork& work) = nullptr;
  void (*leave)() = nullptr;
};

/// Collects stage times.
/// Threads: all members may be called from any thread; an interval begins and ends on one.
class StageClock {
 public:
  /// Values: trace = where the intervals go as well; null: nowhere.
  explicit StageClock(StageHooks hooks = {}, TraceLog* trace = nullptr) : hooks_(hooks), trace_(trace) {}

  [[nodiscard]] TraceLog* trace() const { return trace_; }

  /// What an interval is of a stage.
  enum class Part : std::uint8_t {
    whole,  ///< counts as its time, and is a range of the profiler
    piece,  ///< counts alone: of a thread that works on a piece of it
    frame,  ///< does not count, but is a range: around pieces between which threads wait
  };

  /// An interval of the calling thread, also in the trace; ends when it is destroyed.
  /// Threads: begins and ends on one; ends before those that were begun before it on that thread.
  class Interval {
   public:
    /// Values: clock may be null; role = name of a thread that the trace does not know.
    Interval(StageClock* clock, Stage stage, Part part, const StageWork& work, const char* role = "worker");
    /// In the trace alone. Values: trace may be null; name is a literal, or lives as long.
    Interval(TraceLog* trace, std::string_view name, const StageWork& work = {}, const char* role = "worker") noexcept;
    ~Interval();
    Interval(const Interval&) = delete;
    Interval& operator=(const Interval&) = delete;

    /// For what is known only at the end.
    StageWork& work() { return event_.work; }

   private:
    TraceLog* trace_;
    TraceLane* lane_;
    TraceEvent event_;
    const TraceEvent* outer_ = nullptr;
    StageClock* clock_ = nullptr;
    Stage stage_{};
    Part part_{};
  };

  [[nodiscard]] Interval scope(Stage stage, const StageWork& work = {}) { return {this, stage, Part::whole, work}; }
  [[nodiscard]] Interval worker_scope(Stage stage, const StageWork& work = {}) {
    return {this, stage, Part::piece, work};
  }
  [[nodiscard]] Interval frame(Stage stage) { return {this, stage, Part::frame, {}}; }

  void add_bytes(Stage stage, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    at(stage).totals.bytes += bytes;
  }

  /// Adds time measured elsewhere (events on a device stream).
  void add_seconds(Stage stage, double s) {
    const std::lock_guard lock(mutex_);
    at(stage).totals.s += s;
  }

  [[nodiscard]] StageTotals totals(Stage stage) const {
    const std::lock_guard lock(mutex_);
    return entries_[static_cast<std::size_t>(stage)].totals;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    StageTotals totals;
    int active = 0;
    Clock::time_point since;
  };

  Entry& at(Stage stage) { return entries_[static_cast<std::size_t>(stage)]; }

  void enter(Stage stage) {
    const std::lock_guard lock(mutex_);
    Entry& e = at(stage);
    if (e.active++ == 0) e.since = Clock::now();
  }

  void leave(Stage stage) {
    const std::lock_guard lock(mutex_);
    Entry& e = at(stage);
    if (--e.active == 0) e.totals.s += std::chrono::duration<double>(Clock::now() - e.since).count();
  }

  StageHooks hooks_;
  TraceLog* trace_;
  mutable std::mutex mutex_;
  std::array<Entry, kStageNames.size()> entries_{};
};

}  // namespace spmm
