// The life of a worker process: orders in, results out, and its end with the supervisor's.
#pragma once

#include <sys/types.h>

#include <string>

#include "tools/batch/worker/message.hpp"

namespace spmm::batch {

struct WorkerSetup {
  WorkerKind kind = WorkerKind::cpu;
  std::string name;                      ///< "cpu", "gpu0"
  std::string visible_devices;           ///< gpu: CUDA_VISIBLE_DEVICES of the process
  std::uint64_t memory_limit_bytes = 0;  ///< of all its jobs together
  bool gives_way = false;                ///< to the threads that feed GPUs
  int socket = -1;                       ///< SOCK_SEQPACKET to the supervisor
  int journal = -1;                      ///< file of the journal; -1 = none
  pid_t supervisor = 0;
};

/// Runs orders, each on a separate thread, until the supervisor closes the socket or dies; then stops running jobs,
/// so that they leave nothing behind, and ends. For a freshly forked process without threads.
[[noreturn]] void run_worker_process(const WorkerSetup& setup);

}  // namespace spmm::batch
