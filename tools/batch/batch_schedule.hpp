// Which job goes to which worker: predicted times and memory in, grants out. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spmm/types.hpp"
#include "tools/batch/batch_worker.hpp"

namespace spmm::batch {

/// What the headers of a job tell.
struct JobShape {
  MatrixHeader a, b;
};

/// Seconds of a product from reading to writing, in a worker that has started; a simple model from the headers.
/// Values: num_threads = host threads of the product.
double predicted_seconds(WorkerKind kind, const JobShape& shape, unsigned num_threads);

/// Seconds until a worker of this kind that has not run yet can compute.
double start_seconds(WorkerKind kind);

/// What a job needs, as the scheduler sees it.
struct Demand {
  double cpu_s = 0;  ///< with cpu_threads
  double gpu_s = 0;
  unsigned cpu_threads = 1;      ///< as many as pay
  std::uint64_t host_bytes = 0;  ///< buffers of the product
  Backend backend = Backend::automatic;
  bool alone = false;  ///< in its worker: it is suspected of having broken one
};
/// Values: nothing is known of the shape where a header cannot be read: the worker will say why.
Demand demand_of(const std::optional<JobShape>& shape, Backend backend, unsigned num_cores);

/// Slots: a job takes one per thread on the CPU, one or two on a GPU; a worker with no job takes any.
struct WorkerLoad {
  WorkerKind kind = WorkerKind::cpu;
  bool usable = true;
  bool started = false;
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
std::vector<Grant> hand_out(const std::vector<Demand>& jobs, std::vector<WorkerLoad> workers, MemoryLoad memory);

}  // namespace spmm::batch
