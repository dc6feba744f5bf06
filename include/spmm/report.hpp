// Where the time went: the stages of a run, and what a finished run reports.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "spmm/plan.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// Stages of a run, in the order of the data flow. The names are the timers, the NVTX ranges and the JSON keys.
enum class Stage : std::uint8_t { open, budget, read, h2d, build, count, plan, multiply, compact, d2h, write, verify };

inline constexpr std::array<std::string_view, 12> kStageNames = {
    "open", "budget", "read", "h2d", "build", "count", "plan", "multiply", "compact", "d2h", "write", "verify"};

constexpr std::string_view stage_name(Stage stage) {
  return kStageNames[static_cast<std::size_t>(stage)];
}

/// Totals of one stage.
/// Values: s = seconds during which at least one worker (thread or stream) was in the stage; stages overlap, so the
/// sum over stages may exceed the total. bytes = bytes moved by the stage, 0 where that has no meaning.
struct StageTotals {
  double s = 0;
  std::uint64_t bytes = 0;
};

/// Called on the thread that enters and leaves a stage; used for profiler ranges. Either both are set or none.
struct StageHooks {
  void (*enter)(const char* name) = nullptr;
  void (*leave)() = nullptr;
};

/// Collects stage times.
/// Threads: all members may be called from any thread; a Scope is entered and left on one thread.
class StageClock {
 public:
  explicit StageClock(StageHooks hooks = {}) : hooks_(hooks) {}

  class Scope {
   public:
    Scope(StageClock& clock, Stage stage) : clock_(clock), stage_(stage) { clock_.enter(stage_); }
    ~Scope() { clock_.leave(stage_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StageClock& clock_;
    Stage stage_;
  };

  /// Time of the stage while the returned object lives.
  [[nodiscard]] Scope scope(Stage stage) { return {*this, stage}; }

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
    {
      const std::lock_guard lock(mutex_);
      Entry& e = at(stage);
      if (e.active++ == 0) e.since = Clock::now();
    }
    if (hooks_.enter != nullptr) hooks_.enter(stage_name(stage).data());
  }

  void leave(Stage stage) {
    if (hooks_.leave != nullptr) hooks_.leave();
    const std::lock_guard lock(mutex_);
    Entry& e = at(stage);
    if (--e.active == 0) e.totals.s += std::chrono::duration<double>(Clock::now() - e.since).count();
  }

  StageHooks hooks_;
  mutable std::mutex mutex_;
  std::array<Entry, kStageNames.size()> entries_{};
};

/// What a finished run says about itself.
struct Report {
  MatrixHeader a, b, c;                                  ///< shapes; c.num_blocks = blocks written
  std::uint64_t pairs = 0;                               ///< block products
  double total_s = 0;                                    ///< whole call
  std::array<StageTotals, kStageNames.size()> stages{};  ///< indexed by Stage
  Plan plan;                                             ///< backend, kernel, why, memory
  std::uint64_t num_panels = 0;
  std::uint64_t peak_host_bytes = 0;    ///< resident set of the process at its largest
  std::uint64_t peak_device_bytes = 0;  ///< allocated by the run at its largest; 0 on the CPU
  std::uint64_t verified_blocks = 0;    ///< blocks recomputed by --verify
  std::string device;                   ///< name of the GPU, or of the instruction set on the CPU

  [[nodiscard]] const StageTotals& stage(Stage s) const { return stages[static_cast<std::size_t>(s)]; }

  /// Speed of the whole call in 10^9 pairs per second.
  [[nodiscard]] double gpairs_per_s() const { return total_s > 0 ? static_cast<double>(pairs) * 1e-9 / total_s : 0; }
};

}  // namespace spmm
