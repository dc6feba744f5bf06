// What supervisor and worker say to each other, one packet a message.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tools/batch/list/jobs.hpp"

namespace spmm::batch {

enum class WorkerKind : std::uint8_t { cpu, gpu };

/// Supervisor to worker: run this job.
struct JobOrder {
  std::uint64_t id = 0;
  Job job{};
  unsigned num_threads = 1;
};

/// Supervisor to worker: stop this job soon.
struct CancelOrder {
  std::uint64_t id = 0;
};

/// Worker to supervisor: a job has ended.
struct JobResult {
  std::uint64_t id = 0;
  int exit_code = 0;   ///< as of `spmm`; 0 = the output is there
  double seconds = 0;  ///< from its start in the worker
  unsigned num_threads = 1;
  std::uint64_t in_bytes = 0, out_bytes = 0, pairs = 0;
  std::uint64_t saturated_elements = 0;
  Backend backend = Backend::automatic;
  std::string kernel{};
  std::string message{};  ///< why it failed
};

using Message = std::variant<JobOrder, CancelOrder, JobResult>;

/// Longest packet; longer texts of results are cut.
inline constexpr std::size_t kMaxPacket = 65536;

std::vector<std::byte> encode(const Message& message);
/// Errors: std::runtime_error (no such message).
Message decode(std::span<const std::byte> packet);

enum class SendState : std::uint8_t { sent, full, closed };

/// Sends one packet on a SOCK_SEQPACKET socket; `wait` = blocks while the other side does not read.
SendState send_message(int socket, const Message& message, bool wait);

/// What came from a socket.
struct Received {
  std::optional<Message> message;
  bool closed = false;  ///< the other side is gone
};
Received receive_message(int socket, bool wait);

}  // namespace spmm::batch
