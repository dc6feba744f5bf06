// Which job goes to which worker: predicted times and memory in, grants out. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "spmm/types.hpp"
#include "tools/batch/batch_worker.hpp"

namespace spmm::batch {

/// What a job needs, as the scheduler sees it; job_model.hpp predicts it.
struct Demand {
  double cpu_s = 0;             ///< with cpu_threads
  double gpu_s = 0;             ///< on a GPU whose context is started
  unsigned cpu_threads = 1;     ///< as many as pay
  std::uint64_t cpu_bytes = 1;  ///< host memory that the product takes on the cores
  std::uint64_t gpu_bytes = 1;  ///< and on a GPU
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
};

struct MemoryLoad {
  std::uint64_t total_bytes = 0, used_bytes = 0;
};

/// One job for one worker.
struct Grant {
  std::size_t job = 0, worker = 0;  ///< positions in the arguments
  unsigned slots = 1, num_threads = 1;
  std::uint64_t memory_bytes = 0;
  double predicted_s = 0;  ///< what it adds to the worker's backlog
};

/// Whether some usable worker may run the job.
bool can_run(const Demand& job, const std::vector<WorkerLoad>& workers);

/// Hands out jobs in order, each to the worker where it ends first; one whose worker is full waits for it while later
/// ones go elsewhere. A job for which memory is short holds up those behind it, so that it gets its turn.
/// Values: num_behind = jobs that wait behind these, taken to be like them. A worker may start while others run those,
/// so its start counts only beyond that.
std::vector<Grant> hand_out(const std::vector<Demand>& jobs, std::vector<WorkerLoad> workers, MemoryLoad memory,
                            std::size_t num_behind = 0);

}  // namespace spmm::batch
