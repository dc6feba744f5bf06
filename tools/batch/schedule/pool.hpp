// The worker processes: started when first needed, told what to do, replaced when they die. One thread, no CUDA.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "io/system/descriptor.hpp"
#include "tools/batch/schedule/schedule.hpp"
#include "tools/batch/worker/message.hpp"
#include "tools/batch/worker/process.hpp"

namespace spmm::batch {

/// One worker over all the processes that play its part.
struct PoolWorker {
  WorkerKind kind = WorkerKind::cpu;
  std::string name;               ///< "cpu", "gpu0"
  std::string visible_devices{};  ///< gpu
  std::uint64_t memory_limit_bytes = 0;
  unsigned num_cores = 1;
  io::Descriptor journal{};  ///< its file
  pid_t pid = -1;            ///< -1 = no process
  io::Descriptor socket{};
  unsigned num_starts = 0;
  unsigned failed_starts = 0;  ///< jobs that broke it while it had finished none
  bool given_up = false;
  double start_failed_s = 0;    ///< since when no process can be started, on the steady clock; 0 = it can
  std::string start_problem{};  ///< why not
  bool is_warm = false;         ///< this process has finished a job
  std::uint64_t num_done = 0, num_failed = 0, in_bytes = 0, out_bytes = 0;
  double busy_s = 0;    ///< seconds of its jobs, one after the other
  Slowness slowness{};  ///< of all its processes
};

/// How the process of a worker came to its end.
struct WorkerEnd {
  std::vector<JobResult> results{};  ///< sent before it ended, and not received yet
  int wait_status = 0;
  bool is_stuck = false;  ///< it was killed and lives on: a disk or a driver holds it. Nothing waits for it any more
};

class WorkerPool {
 public:
  /// Values: before_fork runs in each child before its work, to close what the supervisor has open.
  WorkerPool(std::vector<PoolWorker> workers, std::function<void()> in_child)
      : workers_(std::move(workers)), in_child_(std::move(in_child)) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  [[nodiscard]] std::vector<PoolWorker>& workers() { return workers_; }
  [[nodiscard]] const std::vector<PoolWorker>& workers() const { return workers_; }

  /// Sends to a worker, which is started if it is not running; SendState::full = not now, also if no process can be
  /// started. Errors: IoError (none could be started for seconds, and no other worker runs).
  SendState send(std::size_t worker, const Message& message);

  /// Closes the socket of a worker that has nothing to do: it ends. send() would start another one.
  void dismiss(std::size_t worker);

  /// Takes leave of a process that is to be killed, has closed its socket or was dismissed; waits for its end, not
  /// longer than `patience_s`.
  WorkerEnd end(std::size_t worker, bool kill, double patience_s);

  /// Closes all sockets, which ends the workers; waits for them, not longer than `patience_s`, then kills them and
  /// waits as long again.
  void shut_down(double patience_s);

 private:
  bool start(std::size_t worker);
  bool cannot_start(std::size_t worker, const std::string& call, const std::string& remedy);

  std::vector<PoolWorker> workers_;
  std::function<void()> in_child_;
};

/// "signal 9 (Killed)", "exit code 1".
std::string status_text(int wait_status);

/// Those of `all` that --gpus asks for: "auto" (all), "none", or numbers with commas between (positions in `all`).
/// Errors: UsageError.
std::vector<std::string> wanted_gpus(const std::string& wish, const std::string& where,
                                     const std::vector<std::string>& all);

}  // namespace spmm::batch
