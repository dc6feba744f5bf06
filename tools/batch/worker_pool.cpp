#include "tools/batch/worker_pool.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

constexpr std::chrono::milliseconds kLookEvery{2};
constexpr double kPatience = 5;

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

WorkerPool::~WorkerPool() {
  shut_down(kPatience);
}

void WorkerPool::start(std::size_t number) {
  PoolWorker& worker = workers_[number];
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw IoError("socketpair", io::error_text(errno), "raise the limit of open files (ulimit -n)");
  }
  io::Descriptor here(ends[0]);
  io::Descriptor there(ends[1]);
  const pid_t supervisor = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw IoError("fork", io::error_text(errno), "raise the limit of processes (ulimit -u)");
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
  ++worker.num_starts;
}

SendState WorkerPool::send(std::size_t number, const Message& message) {
  if (!workers_[number].socket.is_open()) reap(number);  // it was dismissed
  if (workers_[number].pid < 0) start(number);
  return send_message(workers_[number].socket.get(), message, false);
}

int WorkerPool::kill_worker(std::size_t number) {
  if (workers_[number].pid < 0) return 0;
  ::kill(workers_[number].pid, SIGKILL);
  return reap(number);
}

void WorkerPool::dismiss(std::size_t number) {
  workers_[number].socket = io::Descriptor();
}

int WorkerPool::reap(std::size_t number) {
  PoolWorker& worker = workers_[number];
  if (worker.pid < 0) return 0;
  const int status = wait_for(worker.pid);
  worker.pid = -1;
  worker.socket = io::Descriptor();
  return status;
}

void WorkerPool::shut_down(double patience_s) {
  for (PoolWorker& worker : workers_) worker.socket = io::Descriptor();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    PoolWorker& worker = workers_[w];
    if (worker.pid < 0) continue;
    while (::waitpid(worker.pid, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > give_up) ::kill(worker.pid, SIGKILL);
      std::this_thread::sleep_for(kLookEvery);
    }
    worker.pid = -1;
  }
}

std::string status_text(int status) {
  if (WIFSIGNALED(status)) return text("signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
  return text("exit code ", WEXITSTATUS(status));
}

}  // namespace spmm::batch
