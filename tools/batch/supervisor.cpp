// The poll loop of the supervisor, the workers' processes, and what follows how a job ended.
#include "tools/batch/batch.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

constexpr unsigned kGpuSlots = 4;     // one job reads or writes while another computes
constexpr unsigned kCoresPerGpu = 2;  // feed a GPU with records; the rest computes
constexpr unsigned kMaxGpuThreads = 8;
constexpr std::uint64_t kSharePerOperand = 4;  // for the operands in order, and the result
constexpr unsigned kMaxAttempts = 3;           // a worker may die of something else than the job
constexpr double kSameSignal = 0.3;            // signals that arrive together count as one
constexpr double kEndPatience = 2;             // a worker that was asked to end may take so long, then it is killed
constexpr double kKillPatience = 60;  // a killed process gives back pinned memory and a device, which takes seconds
constexpr double kDropPatience = 5;   // if the run ends anyway
constexpr double kPollSeconds = 0.25;

/// Products with at least this many bytes of A and B go to a GPU, if there is one: S1, of 27 MB, takes 0.026 s there
/// and 1.5 s of a core. Smaller ones keep more cores busy than a GPU has jobs at once.
constexpr std::uint64_t kGpuBytes = 1 << 20;

bool wants_gpu(const Job& job) {
  if (job.product.backend != Backend::automatic) return job.product.backend == Backend::cuda;
  return job.in_bytes >= kGpuBytes;
}

/// A process is to be replaced after that: a fault on a device poisons it.
bool breaks_worker(int exit_code) {
  return exit_code == cli::kUnavailable || exit_code == cli::kInternal;
}

std::string end_text(int status) {
  if (WIFSIGNALED(status)) return text("signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
  return text("exit code ", WEXITSTATUS(status));
}

/// cli::kStopSignals (unless ignored) and the end of a child as a file descriptor; they stay blocked.
io::Descriptor open_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : cli::kStopSignals) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    const bool is_meant = before.sa_handler == SIG_IGN && (number == SIGTERM || number == SIGUSR1);
    if (is_meant || before.sa_handler == SIG_DFL) sigaddset(&set, number);
  }
  ::signal(SIGCHLD, SIG_DFL);
  sigaddset(&set, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  io::Descriptor fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.is_open()) throw IoError("signalfd", io::error_text(errno), "raise the limit of open files (ulimit -n)");
  return fd;
}

struct Worker {
  WorkerSetup setup;
  pid_t pid = -1;  ///< -1 = no process
  io::Descriptor socket{};
  std::vector<std::uint64_t> jobs{};
  double kill_s = 0;                       ///< it is to end, and is killed from then on; 0 = not
  std::optional<std::uint64_t> culprit{};  ///< the job for which it is to end

  [[nodiscard]] bool is_gpu() const { return !setup.visible_device.empty(); }
};

class Supervisor {
 public:
  Supervisor(const std::vector<Job>& jobs, std::vector<JobRun>& runs, const std::vector<WorkerSetup>& workers,
             const BatchOptions& options, Log* log, BatchOutput& output)
      : jobs_(jobs), runs_(runs), grace_s_(options.grace_s), list_(options.list_name()), log_(log), output_(output) {
    for (const WorkerSetup& setup : workers) workers_.push_back({.setup = setup});
    for (std::uint64_t j = 0; j < jobs.size(); ++j) {
      if (runs[j].state == JobState::waiting) queue_of(j).push_back(j);
    }
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Closes all sockets, which ends the workers; waits for them, and kills those that take long.
  ~Supervisor() {
    const double kill_s = output_.now_s() + kDropPatience;
    for (Worker& worker : workers_) worker.socket = {};
    while (std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.pid >= 0; })) {
      const double now = output_.now_s();
      if (now > kill_s + kDropPatience) return;  // one that still lives is left alone
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (Worker& worker : workers_) {
        if (worker.pid >= 0 && now > kill_s) ::kill(worker.pid, SIGKILL);
        if (worker.pid >= 0 && ::waitpid(worker.pid, nullptr, WNOHANG) == worker.pid) worker.pid = -1;
      }
    }
  }

  int run() {
    while (true) {
      if (phase_ == Phase::running) {
        dispatch(gpu_queue_, true);
        dispatch(cpu_queue_, false);
      }
      if (count(JobState::running) == 0 && (phase_ != Phase::running || count(JobState::waiting) == 0)) break;
      wait_for_events();
      reap();
      look_at_clock();
      output_.tick();
    }
    if (count(JobState::waiting) > 0) return cli::kInterrupted;
    return count(JobState::failed) > 0 ? cli::kNegative : cli::kOk;
  }

 private:
  [[nodiscard]] std::uint64_t count(JobState state) const { return output_.counts()[state]; }

  enum class Phase : std::uint8_t { running, draining, dropping };

  // ---- jobs to workers

  std::deque<std::uint64_t>& queue_of(std::uint64_t job) {
    const bool has_gpus = workers_.front().is_gpu();
    return has_gpus && wants_gpu(jobs_[job]) ? gpu_queue_ : cpu_queue_;
  }

  void dispatch(std::deque<std::uint64_t>& queue, bool to_gpu) {
    while (!queue.empty()) {
      const std::uint64_t job = queue.front();
      Worker* const worker = worker_for(runs_[job], to_gpu);
      if (worker == nullptr) return;
      if (worker->pid < 0 && !start(*worker)) continue;
      queue.pop_front();
      worker->jobs.push_back(job);
      runs_[job].worker = worker->setup.name;
      runs_[job].started_s = output_.now_s();
      ++runs_[job].attempts;
      output_.change(runs_[job], JobState::running);
      const auto sent = io::retried([&] { return ::send(worker->socket.get(), &job, sizeof job, MSG_NOSIGNAL); });
      if (sent < 0) end_worker(*worker, std::nullopt, 0);  // it has died
    }
    // If nothing waits any more a worker ends: leaving a device takes a tenth of a second, and others still run.
    for (Worker& worker : workers_) {
      if (worker.is_gpu() != to_gpu || !worker.jobs.empty() || !worker.socket.is_open()) continue;
      worker.socket = {};
      worker.kill_s = output_.now_s() + kKillPatience;
    }
  }

  /// The worker with the fewest jobs that takes one more; null if there is none now.
  Worker* worker_for(const JobRun& run, bool is_gpu) {
    Worker* best = nullptr;
    for (Worker& worker : workers_) {
      const bool is_ready = worker.pid < 0 ? output_.now_s() >= start_again_s_ : worker.socket.is_open();
      if (worker.is_gpu() != is_gpu || !is_ready || worker.kill_s != 0) continue;
      const std::size_t count = worker.jobs.size();
      if (count >= worker.setup.num_slots) continue;
      if (count > 0 && (run.is_alone || runs_[worker.jobs.front()].is_alone)) continue;
      if (best == nullptr || count < best->jobs.size()) best = &worker;
    }
    return best;
  }

  /// False if that may work later. Errors: IoError (no job runs, and no process could be started).
  bool start(Worker& worker) {
    int ends[2] = {-1, -1};
    const bool has_socket = ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
    io::Descriptor here(ends[0]);
    const io::Descriptor there(ends[1]);
    const pid_t supervisor = ::getpid();
    const pid_t pid = has_socket ? ::fork() : -1;
    if (pid < 0) {
      if (count(JobState::running) == 0) {
        throw IoError("worker process", text("cannot be started (", io::error_text(errno), ")"),
                      "raise the limits of processes and open files (ulimit -u, ulimit -n)");
      }
      start_again_s_ = output_.now_s() + kPollSeconds;
      return false;
    }
    if (pid == 0) {
      // A copy of another worker's socket would hide the supervisor's death from that worker, one of the log its lock.
      for (const Worker& other : workers_) {
        if (other.socket.is_open()) ::close(other.socket.get());
      }
      for (const int fd : {here.get(), signals_.get(), log_ == nullptr ? -1 : log_->fd()}) ::close(fd);
      run_worker(worker.setup, jobs_, there.get(), supervisor);
    }
    worker.pid = pid;
    worker.socket = std::move(here);
    worker.culprit = {};
    return true;
  }

  // ---- events

  void wait_for_events() {
    std::vector<pollfd> fds = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    for (const Worker& worker : workers_) fds.push_back({.fd = worker.socket.get(), .events = POLLIN, .revents = 0});
    if (::poll(fds.data(), fds.size(), static_cast<int>(kPollSeconds * 1000)) <= 0) return;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (fds[w + 1].revents != 0) take_results(workers_[w]);
    }
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) take_signal(static_cast<int>(info.ssi_signo));
    }
  }

  void take_signal(int number) {
    const double now = output_.now_s();
    if (phase_ == Phase::running) {
      phase_ = Phase::draining;
      signal_s_ = now;
      output_.note(
          text("signal ", number, ": no new jobs, ", count(JobState::running), " running ones have ", grace_s_, " s"));
    } else if (now - signal_s_ > kSameSignal) {
      grace_s_ = 0;
    }
  }

  void look_at_clock() {
    const double now = output_.now_s();
    if (phase_ == Phase::draining && now >= signal_s_ + grace_s_) {
      phase_ = Phase::dropping;
      for (Worker& worker : workers_) end_worker(worker, std::nullopt, kEndPatience);
    }
    for (Worker& worker : workers_) {
      for (const std::uint64_t job : worker.jobs) {
        const double timeout_s = jobs_[job].timeout_s;
        if (timeout_s > 0 && now >= runs_[job].started_s + timeout_s) end_worker(worker, job, kEndPatience);
      }
      if (worker.pid < 0 || worker.kill_s == 0 || now < worker.kill_s) continue;
      ::kill(worker.pid, SIGKILL);
      if (now >= worker.kill_s + kKillPatience) lose(worker, end_text(SIGKILL));  // a disk or a driver holds it
    }
  }

  void take_results(Worker& worker) {
    for (bool is_closed = false; worker.socket.is_open() && !is_closed;) {
      auto result = receive_result(worker.socket.get(), is_closed);
      if (is_closed) {  // it has ended, or receiving has failed
        end_worker(worker, std::nullopt, 0);
        worker.socket = {};
      }
      if (!result) return;
      const std::uint64_t job = result->job;
      runs_[job].result = std::move(*result);
      if (breaks_worker(runs_[job].result.exit_code)) {
        end_worker(worker, std::nullopt, 0);
        continue;
      }
      worker.jobs.erase(std::remove(worker.jobs.begin(), worker.jobs.end(), job), worker.jobs.end());
      runs_[job].result.exit_code == cli::kOk ? succeed(job) : settle_failure(job, false);
    }
  }

  // ---- the end of a worker

  /// Values: patience_s = until it is killed; culprit = the job to blame.
  void end_worker(Worker& worker, std::optional<std::uint64_t> culprit, double patience_s) {
    if (worker.pid < 0 || worker.kill_s != 0) return;
    worker.culprit = culprit;
    worker.kill_s = output_.now_s() + patience_s;
    if (patience_s > 0) ::kill(worker.pid, kEndSignal);
  }

  void reap() {
    int status = 0;
    for (pid_t pid = 1; pid > 0;) {
      pid = ::waitpid(-1, &status, WNOHANG);
      for (Worker& worker : workers_) {
        if (pid > 0 && worker.pid == pid) lose(worker, end_text(status));
      }
    }
  }

  /// What it finished before its end is finished; its other jobs have failed, or are run again.
  void lose(Worker& worker, const std::string& why) {
    if (worker.kill_s == 0) worker.kill_s = output_.now_s();  // nothing is to end it now
    take_results(worker);
    worker.pid = -1;
    worker.socket = {};
    worker.kill_s = 0;
    for (const std::uint64_t job : std::exchange(worker.jobs, {})) {
      JobResult& result = runs_[job].result;
      if (worker.culprit == job) {
        result.exit_code = cli::kInterrupted;
        result.message = text("took longer than its timeout of ", jobs_[job].timeout_s, " s");
      } else if (!breaks_worker(result.exit_code)) {
        result.exit_code = cli::kInternal;
        result.message = "its worker died: " + why;
      }
      settle_failure(job, worker.culprit && worker.culprit != job);
    }
  }

  // ---- the end of a job

  void succeed(std::uint64_t job) {
    output_.change(runs_[job], JobState::done);
    const JobResult& result = runs_[job].result;
    if (log_ == nullptr || !result.out.is_regular) return;  // /dev/null is never done
    try {
      log_->append(log_line(jobs_[job], result.a, result.b, result.out));
    } catch (const IoError& e) {  // the product is there; without the line --resume makes it once more
      if (!std::exchange(is_log_noted_, true)) output_.note(e.what());
    }
  }

  void settle_failure(std::uint64_t job, bool is_blameless) {
    JobRun& run = runs_[job];
    const bool is_worker_gone = breaks_worker(run.result.exit_code);
    if (is_blameless || (is_worker_gone && phase_ == Phase::dropping)) {
      --run.attempts;
    } else if (is_worker_gone && run.attempts < kMaxAttempts) {
      run.is_alone = true;
    } else {
      output_.change(run, JobState::failed);
      return output_.note(
          text(list_, ':', jobs_[job].line, ": failed (", run.result.exit_code, "): ", run.result.message));
    }
    run.result = {};
    output_.change(run, JobState::waiting);
    queue_of(job).push_front(job);
  }

  const std::vector<Job>& jobs_;
  std::vector<JobRun>& runs_;
  double grace_s_;
  std::string list_;
  Log* log_;
  BatchOutput& output_;
  io::Descriptor signals_ = open_signals();
  std::vector<Worker> workers_;
  std::deque<std::uint64_t> gpu_queue_, cpu_queue_;
  Phase phase_ = Phase::running;
  bool is_log_noted_ = false;
  double signal_s_ = 0, start_again_s_ = 0;
};

}  // namespace

std::vector<WorkerSetup> plan_workers(const std::vector<Job>& jobs, const std::vector<std::string>& gpus,
                                      unsigned num_cores, std::uint64_t memory_bytes, unsigned max_in_flight) {
  const unsigned num_gpus = static_cast<unsigned>(gpus.size());
  std::uint64_t num_cpu_jobs = 0;
  std::uint64_t largest = 1;
  for (const Job& job : jobs) {
    if (num_gpus > 0 && wants_gpu(job)) continue;
    ++num_cpu_jobs;
    largest = std::max(largest, job.in_bytes);
  }
  const std::uint64_t part = num_gpus > 0 && num_cpu_jobs > 0 ? memory_bytes / 2 : memory_bytes;
  std::vector<WorkerSetup> workers;
  for (unsigned g = 0; g < num_gpus; ++g) {
    workers.push_back({.name = text("gpu", g),
                       .visible_device = gpus[g],
                       .memory_limit_bytes = std::max<std::uint64_t>(1, part / num_gpus),
                       .num_threads = std::clamp(num_cores / num_gpus, 1U, kMaxGpuThreads),
                       .num_slots = max_in_flight != 0 ? max_in_flight : kGpuSlots});
  }
  const unsigned cores = num_cores - std::min(num_cores - 1, kCoresPerGpu * num_gpus);
  std::uint64_t num_workers = max_in_flight;
  if (num_workers == 0) num_workers = std::min<std::uint64_t>(cores, part / kSharePerOperand / largest);
  num_workers = std::max<std::uint64_t>(1, std::min(num_workers, num_cpu_jobs));  // one for what GPUs cannot do
  const WorkerSetup setup{.name = "cpu",
                          .memory_limit_bytes = std::max<std::uint64_t>(1, part / num_workers),
                          .num_threads = std::max(1U, static_cast<unsigned>(cores / num_workers)),
                          .gives_way = num_gpus > 0};
  workers.insert(workers.end(), num_workers, setup);
  return workers;
}

int supervise(const std::vector<Job>& jobs, std::vector<JobRun>& runs, const std::vector<WorkerSetup>& workers,
              const BatchOptions& options, Log* log, BatchOutput& output) {
  return Supervisor(jobs, runs, workers, options, log, output).run();
}

}  // namespace spmm::batch
