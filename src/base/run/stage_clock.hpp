// Timers of the stages of one product.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "base/run/trace_log.hpp"
#include "spmm/report.hpp"

namespace spmm {

/// Called on the thread that enters and leaves a stage; used for profiler ranges. Either both are set or none.
struct StageHooks {
  void (*enter)(const char* name, const StageWork& work) = nullptr;
  void (*leave)() = nullptr;
};

/// Collects stage times.
/// Threads: all members may be called from any thread; a Scope is entered and left on one thread.
class StageClock {
 public:
  /// Values: trace = where the intervals go as well; null: nowhere.
  explicit StageClock(StageHooks hooks = {}, TraceLog* trace = nullptr) : hooks_(hooks), trace_(trace) {}

  [[nodiscard]] TraceLog* trace() const { return trace_; }

  class Scope {
   public:
    Scope(StageClock& clock, Stage stage, const StageWork& work)
        : clock_(clock), stage_(stage), span_(clock.trace_, stage_name(stage), work) {
      clock_.enter(stage_);
      clock_.enter_range(stage_, work);
    }
    ~Scope() {
      clock_.leave_range();
      clock_.leave(stage_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StageClock& clock_;
    Stage stage_;
    TraceSpan span_;
  };

  /// Time of the stage while the returned object lives.
  [[nodiscard]] Scope scope(Stage stage, const StageWork& work = {}) { return {*this, stage, work}; }

  class WorkerScope {
   public:
    /// Values: clock may be null.
    WorkerScope(StageClock* clock, Stage stage, const StageWork& work, const char* role = "worker")
        : clock_(clock),
          stage_(stage),
          span_(clock == nullptr ? nullptr : clock->trace_, stage_name(stage), work, role) {
      if (clock_ != nullptr) clock_->enter(stage_);
    }
    ~WorkerScope() {
      if (clock_ != nullptr) clock_->leave(stage_);
    }
    WorkerScope(const WorkerScope&) = delete;
    WorkerScope& operator=(const WorkerScope&) = delete;

    /// For what is known only at the end.
    StageWork& work() { return span_.work(); }

   private:
    StageClock* clock_;
    Stage stage_;
    TraceSpan span_;
  };

  /// Time of the stage in which a thread works on a piece of it; no range of a profiler.
  [[nodiscard]] WorkerScope worker_scope(Stage stage, const StageWork& work = {}) { return {this, stage, work}; }

  class Frame {
   public:
    Frame(StageClock& clock, Stage stage) : clock_(clock), span_(clock.trace_, stage_name(stage)) {
      clock_.enter_range(stage, {});
    }
    ~Frame() { clock_.leave_range(); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    StageClock& clock_;
    TraceSpan span_;
  };

  /// An interval of trace and profiler around the pieces of a stage, whose time alone counts: threads wait between
  /// them.
  [[nodiscard]] Frame frame(Stage stage) { return {*this, stage}; }

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

  void enter_range(Stage stage, const StageWork& work) {
    if (hooks_.enter != nullptr) hooks_.enter(stage_name(stage).data(), work);
  }

  void leave_range() {
    if (hooks_.leave != nullptr) hooks_.leave();
  }

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
