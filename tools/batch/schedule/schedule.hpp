// Which job goes to which worker: predicted times in, grants out. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "spmm/types.hpp"
#include "tools/batch/worker/message.hpp"

namespace spmm::batch {

/// What a job needs, as the scheduler sees it; job_model.hpp predicts it.
struct Demand {
  double cpu_s = 0;          ///< with cpu_threads
  double gpu_s = 0;          ///< on a GPU whose context is started
  unsigned cpu_threads = 1;  ///< as many as pay
  Backend backend = Backend::automatic;
  bool alone = false;  ///< in its worker: it is suspected of having broken one
};

/// Slots: a job takes one per thread on the CPU, one or two on a GPU; a worker with no job takes any.
struct WorkerLoad {
  WorkerKind kind = WorkerKind::cpu;
  bool usable = true;
  double start_s = 0;       ///< predicted time until it can compute; 0 = at once
  bool runs_alone = false;  ///< holds a job that must have no company
  unsigned num_cores = 1;
  unsigned num_slots = 1, used_slots = 0;
  unsigned max_jobs = 1, num_jobs = 0;
  double backlog_s = 0;  ///< predicted time of what it holds, as if one after the other on all of it
  double slowness = 1;   ///< seconds that a predicted second takes
};

/// What the jobs of a worker took against what was predicted for them: files on a slow disk, cores that others use.
/// Times are on the supervisor's clock.
class Slowness {
 public:
  /// A job has ended; predicted_s = what it added to the backlog.
  void ended(double now_s, double predicted_s);
  /// A job starts; was_idle = it is the only one.
  void started(double now_s, bool was_idle);

  /// 1 until enough is known.
  [[nodiscard]] double factor() const;

 private:
  static constexpr unsigned kFewJobs = 4;  // they include what a worker does only once
  unsigned num_ended_ = 0;
  double since_s_ = 0;  // counted up to here
  double busy_s_ = 0;
  double predicted_s_ = 0;
};

/// One job for one worker.
struct Grant {
  std::size_t job = 0, worker = 0;  ///< positions in the arguments
  unsigned slots = 1, num_threads = 1;
  double predicted_s = 0;  ///< what it adds to the worker's backlog
};

/// Whether some usable worker may run the job.
bool can_run(const Demand& job, const std::vector<WorkerLoad>& workers);

/// Hands out jobs in order, each to the worker where it ends first; one whose worker is full waits for it while later
/// ones go elsewhere.
/// Values: num_behind = jobs that wait behind these, taken to be like them. A worker may start while others run those,
/// so its start counts only beyond that.
std::vector<Grant> hand_out(const std::vector<Demand>& jobs, std::vector<WorkerLoad> workers,
                            std::size_t num_behind = 0);

}  // namespace spmm::batch
