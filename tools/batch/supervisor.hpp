// Hands out jobs, watches workers, times and signals: one thread, one poll loop, no CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/batch/files.hpp"
#include "tools/batch/list.hpp"
#include "tools/batch/output.hpp"
#include "tools/batch/worker.hpp"

namespace spmm::batch {

/// The workers: one for each GPU, which has several jobs at once; and on the cores, each with one job at a time, as
/// many as there are cores, jobs, and shares of the memory with room for four times the largest operands. If both have
/// jobs, each kind has half of the memory. Values: gpus = CUDA_VISIBLE_DEVICES of each; max_in_flight = jobs at once on
/// the cores and on each GPU, 0 = these numbers.
std::vector<WorkerSetup> plan_workers(const std::vector<Job>& jobs, const std::vector<std::string>& gpus,
                                      unsigned num_cores, std::uint64_t memory_bytes, unsigned max_in_flight);

/// Runs the jobs that wait until all are settled or a signal stops the run; returns the exit code.
/// Values: runs[j] = of jobs[j]; log = null: none is kept; list = its name, for messages.
/// Errors: IoError (no worker process can be started).
int supervise(const std::vector<Job>& jobs, std::vector<JobRun>& runs, const std::vector<WorkerSetup>& workers,
              double grace_s, const std::string& list, Log* log, BatchOutput& output);

}  // namespace spmm::batch
