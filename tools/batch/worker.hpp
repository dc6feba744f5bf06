// A worker process: numbers of jobs in, products, results out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tools/batch/files.hpp"
#include "tools/batch/list.hpp"

namespace spmm::batch {

/// How a job ended: the numbers of it.
struct ResultNumbers {
  std::uint64_t job = 0;
  int exit_code = 0;   ///< as of `spmm`; 0 = the output is there
  double seconds = 0;  ///< from its start in the worker
  unsigned num_threads = 0;
  std::uint64_t in_bytes = 0, out_bytes = 0, pairs = 0, saturated_elements = 0;
  Backend backend = Backend::automatic;
  FileState a{}, b{}, out{};  ///< for the log
};
struct JobResult : ResultNumbers {
  std::string kernel{};
  std::string message{};  ///< why it failed
};

/// Sends one packet on a SOCK_SEQPACKET socket; long messages are cut. False if the other side is gone.
bool send_result(int socket, const JobResult& result);
/// Takes a packet that is there. Nothing if there is none; is_closed: nor will there be.
std::optional<JobResult> receive_result(int socket, bool& is_closed);

struct WorkerSetup {
  std::string name;                      ///< "cpu", "gpu0"
  std::string visible_device{};          ///< CUDA_VISIBLE_DEVICES of a GPU's worker; "" = works on the cores
  std::uint64_t memory_limit_bytes = 0;  ///< of all its jobs together
  unsigned num_threads = 1;              ///< of a job
  unsigned num_slots = 1;                ///< jobs at once
  bool gives_way = false;                ///< to the threads that feed GPUs
};

/// The signal by which the supervisor ends a worker at once, with nothing left behind; its death sends it, too.
extern const int kEndSignal;

/// Runs the jobs whose numbers come by the socket until it closes. For a freshly forked process without threads.
[[noreturn]] void run_worker(const WorkerSetup& setup, std::span<const Job> jobs, int socket, pid_t supervisor);

}  // namespace spmm::batch
