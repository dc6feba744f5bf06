// Starts, feeds and ends worker processes.
#include "tools/batch/schedule/pool.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

constexpr std::chrono::milliseconds kPollEvery{2};
constexpr double kPatience = 5;
constexpr double kLastPatience = 0.1;    // between a closed socket and the end of its process
constexpr double kDismissPatience = 60;  // a process gives back pinned memory and a device, which takes seconds
constexpr double kStartPatience = 5;
constexpr std::uint64_t kMaxGpus = 1024;

using Clock = std::chrono::steady_clock;

double now_s() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Whether the process ended before `end_s`.
bool has_ended(pid_t pid, double end_s, int& status) {
  while (true) {
    const pid_t found = ::waitpid(pid, &status, WNOHANG);
    if (found == pid || (found < 0 && errno != EINTR)) return true;
    if (now_s() > end_s) return false;
    std::this_thread::sleep_for(kPollEvery);
  }
}

/// Results until the socket closes, or until `end_s`.
std::vector<JobResult> last_results(int socket, double end_s) {
  std::vector<JobResult> results;
  while (true) {
    pollfd fd{.fd = socket, .events = POLLIN, .revents = 0};
    const double left_s = end_s - now_s();
    const int ready = left_s <= 0 ? 0 : ::poll(&fd, 1, static_cast<int>(left_s * 1000) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return results;
    const Received last = receive_message(socket, false);
    if (last.closed) return results;
    const auto* result = last.message ? std::get_if<JobResult>(&*last.message) : nullptr;
    if (result != nullptr) results.push_back(*result);
  }
}

}  // namespace

WorkerPool::~WorkerPool() {
  shut_down(kPatience);
}

bool WorkerPool::cannot_start(std::size_t number, const std::string& call, const std::string& remedy) {
  const int error = errno;
  PoolWorker& worker = workers_[number];
  worker.start_problem = text("no worker process can be started (", call, ": ", io::error_text(error), ")");
  const double now = now_s();
  if (worker.start_failed_s == 0) worker.start_failed_s = now;
  const bool others_run =
      std::any_of(workers_.begin(), workers_.end(), [](const PoolWorker& other) { return other.pid >= 0; });
  if (others_run || now < worker.start_failed_s + kStartPatience) return false;
  throw IoError(call, io::error_text(error), remedy);
}

/// False if that may work later.
bool WorkerPool::start(std::size_t number) {
  PoolWorker& worker = workers_[number];
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return cannot_start(number, "socketpair", "raise the limit of open files (ulimit -n)");
  }
  io::Descriptor here(ends[0]);
  io::Descriptor there(ends[1]);
  const pid_t supervisor = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start(number, "fork", "raise the limit of processes (ulimit -u)");
  if (pid == 0) {
    // A copy of another worker's socket would hide the supervisor's death from that worker.
    for (PoolWorker& other : workers_) {
      if (other.socket.is_open()) ::close(other.socket.get());
      if (other.journal.is_open() && &other != &worker) ::close(other.journal.get());
    }
    ::close(here.get());
    in_child_();
    run_worker_process({.kind = worker.kind,
                        .name = worker.name,
                        .visible_devices = worker.visible_devices,
                        .memory_limit_bytes = worker.memory_limit_bytes,
                        .gives_way = worker.kind == WorkerKind::cpu && workers_.size() > 1,
                        .socket = there.get(),
                        .journal = worker.journal.get(),
                        .supervisor = supervisor});
  }
  worker.pid = pid;
  worker.is_warm = false;
  worker.socket = std::move(here);
  worker.start_failed_s = 0;
  ++worker.num_starts;
  return true;
}

SendState WorkerPool::send(std::size_t number, const Message& message) {
  if (!workers_[number].socket.is_open()) end(number, false, kDismissPatience);
  if (workers_[number].pid < 0 && !start(number)) return SendState::full;
  return send_message(workers_[number].socket.get(), message, false);
}

void WorkerPool::dismiss(std::size_t number) {
  workers_[number].socket = io::Descriptor();
}

WorkerEnd WorkerPool::end(std::size_t number, bool kill, double patience_s) {
  PoolWorker& worker = workers_[number];
  WorkerEnd end;
  if (worker.pid < 0) return end;
  const double end_s = now_s() + patience_s;
  if (kill) ::kill(worker.pid, SIGKILL);
  if (worker.socket.is_open()) end.results = last_results(worker.socket.get(), end_s);
  worker.socket = io::Descriptor();
  if (!has_ended(worker.pid, kill ? now_s() : end_s, end.wait_status)) {
    ::kill(worker.pid, SIGKILL);
    const double killed_s = now_s() + (kill ? kLastPatience : patience_s);
    end.is_stuck = !has_ended(worker.pid, std::max(end_s, killed_s), end.wait_status);
    if (end.is_stuck) end.wait_status = SIGKILL;
  }
  worker.pid = -1;
  return end;
}

void WorkerPool::shut_down(double patience_s) {
  for (PoolWorker& worker : workers_) worker.socket = io::Descriptor();
  const double end_s = now_s() + patience_s;
  int status = 0;
  for (PoolWorker& worker : workers_) {
    if (worker.pid >= 0 && has_ended(worker.pid, end_s, status)) worker.pid = -1;
    if (worker.pid >= 0) ::kill(worker.pid, SIGKILL);
  }
  for (PoolWorker& worker : workers_) {
    if (worker.pid >= 0) has_ended(worker.pid, end_s + patience_s, status);  // one that still lives is left alone
    worker.pid = -1;
  }
}

std::string status_text(int status) {
  if (WIFSIGNALED(status)) return text("signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
  return text("exit code ", WEXITSTATUS(status));
}

std::vector<std::string> wanted_gpus(const std::string& wish, const std::string& where,
                                     const std::vector<std::string>& all) {
  if (wish == "auto") return all;
  std::vector<std::string> gpus;
  if (wish == "none") return gpus;
  std::istringstream numbers(wish + ",");
  for (std::string number; std::getline(numbers, number, ',');) {
    const std::uint64_t g = cli::parse_count(number, where, 0, kMaxGpus);
    if (g >= all.size()) {
      throw UsageError(where, text("there is no GPU ", g, ", found ", all.size()), "give auto, none or numbers from 0");
    }
    if (std::find(gpus.begin(), gpus.end(), all[g]) != gpus.end()) {
      throw UsageError(where, text("names GPU ", g, " twice"), "name each GPU once");
    }
    gpus.push_back(all[g]);
  }
  return gpus;
}

}  // namespace spmm::batch
