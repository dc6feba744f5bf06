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
  class Interval {
   public:
    /// Values: clock may be null; role = name of a thread that the trace does not know.
    Interval(StageClock* clock, Stage stage, Part part, const StageWork& work, const char* role = "worker")
        : clock_(clock),
          stage_(stage),
          part_(part),
          span_(clock == nullptr ? nullptr : clock->trace_, stage_name(stage), work, role) {
      if (clock_ == nullptr) return;
      if (part_ != Part::frame) clock_->enter(stage_);
      if (part_ != Part::piece && clock_->hooks_.enter != nullptr) {
        clock_->hooks_.enter(stage_name(stage).data(), work);
      }
    }
    ~Interval() {
      if (clock_ == nullptr) return;
      if (part_ != Part::piece && clock_->hooks_.leave != nullptr) clock_->hooks_.leave();
      if (part_ != Part::frame) clock_->leave(stage_);
    }
    Interval(const Interval&) = delete;
    Interval& operator=(const Interval&) = delete;

    /// For what is known only at the end.
    StageWork& work() { return span_.work(); }

   private:
    StageClock* clock_;
    Stage stage_;
    Part part_;
    TraceSpan span_;
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
