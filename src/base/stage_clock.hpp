// Timers of the stages of one product.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "base/trace_log.hpp"
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
      clock_.enter(stage_, work);
    }
    ~Scope() { clock_.leave(stage_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StageClock& clock_;
    Stage stage_;
    TraceSpan span_;
  };

  /// Time of the stage while the returned object lives.
  [[nodiscard]] Scope scope(Stage stage, const StageWork& work = {}) { return {*this, stage, work}; }

  /// An interval of the trace alone: a piece of a stage that the clock runs for already.
  [[nodiscard]] TraceSpan piece(Stage stage, const StageWork& work = {}) { return {trace_, stage_name(stage), work}; }

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

  void enter(Stage stage, const StageWork& work) {
    {
      const std::lock_guard lock(mutex_);
      Entry& e = at(stage);
      if (e.active++ == 0) e.since = Clock::now();
    }
    if (hooks_.enter != nullptr) hooks_.enter(stage_name(stage).data(), work);
  }

  void leave(Stage stage) {
    if (hooks_.leave != nullptr) hooks_.leave();
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
