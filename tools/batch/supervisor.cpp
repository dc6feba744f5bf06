// The poll loop of the supervisor: results, lines of standard input, signals, time limits.
#include "tools/batch/supervisor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "tools/batch/journal/check.hpp"

namespace spmm::batch {
namespace {

constexpr std::size_t kFeedAhead = 256;  // lines of standard input that wait at most
constexpr double kSameSignal = 0.3;      // signals that arrive together count as one
constexpr double kCancelPatience = 2;    // a job that was asked to stop may take so long, then its worker dies
constexpr double kPollSeconds = 0.25;
constexpr double kPollStalledSeconds = 0.005;

JobModel model_of(const SupervisorParts& parts) {
  unsigned cpu_cores = 1;
  unsigned gpu_threads = 0;
  for (const PoolWorker& worker : parts.pool.workers()) {
    (worker.kind == WorkerKind::gpu ? gpu_threads : cpu_cores) = worker.num_cores;
  }
  return {batch_machine(cpu_cores, parts.pool.workers().front().memory_limit_bytes, gpu_threads != 0), cpu_cores,
          gpu_threads};
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : cli::kStopSignals) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    const bool is_meant = before.sa_handler == SIG_IGN && (number == SIGTERM || number == SIGUSR1);
    if (is_meant || before.sa_handler == SIG_DFL) sigaddset(&set, number);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_ = io::Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.is_open()) throw IoError("signalfd", io::error_text(errno), "raise the limit of open files (ulimit -n)");
}

int StopSignals::take() const {
  signalfd_siginfo info{};
  return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

Supervisor::Supervisor(const SupervisorParts& parts)
    : p_(parts), model_(model_of(parts)), in_flight_(parts.pool.workers().size()) {}

bool Supervisor::is_over() const {
  const JobCounts& counts = p_.table.counts();
  if (counts.running > 0) return false;
  if (phase_ != Phase::running) return true;
  return counts.waiting == 0 && (p_.feed == nullptr || p_.feed->has_ended());
}

int Supervisor::run() {
  while (true) {
    if (phase_ == Phase::running) dispatch();
    p_.table.forget_finished();
    if (is_over()) break;
    dismiss_idle();
    wait_for_events();
    look_at_clock();
    p_.output.tick(p_.table.counts(), p_.feed == nullptr || p_.feed->has_ended());
  }
  const JobCounts& counts = p_.table.counts();
  const bool is_complete = counts.waiting == 0 && (p_.feed == nullptr || p_.feed->has_ended());
  if (interrupted_ && !is_complete) return cli::kInterrupted;
  return counts.failed + counts.failed_before > 0 ? cli::kNegative : cli::kOk;
}

/// Where nothing waits any more: leaving a device takes a worker a tenth of a second, and others still run.
void Supervisor::dismiss_idle() {
  if (!p_.table.waiting().empty() || (p_.feed != nullptr && !p_.feed->has_ended())) return;
  for (std::size_t w = 0; w < in_flight_.size(); ++w) {
    if (in_flight_[w].empty() && p_.pool.workers()[w].socket.is_open()) p_.pool.dismiss(w);
  }
}

// ---- events

void Supervisor::wait_for_events() {
  std::vector<pollfd> fds = {{.fd = p_.signals.fd(), .events = POLLIN, .revents = 0}};
  const bool reads_feed =
      p_.feed != nullptr && !p_.feed->has_ended() && phase_ == Phase::running && p_.table.counts().waiting < kFeedAhead;
  fds.push_back({.fd = reads_feed ? p_.feed->fd() : -1, .events = POLLIN, .revents = 0});
  for (const PoolWorker& worker : p_.pool.workers()) {
    fds.push_back({.fd = worker.socket.get(), .events = POLLIN, .revents = 0});
  }
  const double seconds = stalled_ ? kPollStalledSeconds : kPollSeconds;
  if (::poll(fds.data(), fds.size(), static_cast<int>(seconds * 1000)) <= 0) return;
  constexpr std::size_t kFirstWorker = 2;
  for (std::size_t f = kFirstWorker; f < fds.size(); ++f) {
    const std::size_t worker = f - kFirstWorker;
    if (fds[f].revents == 0 || p_.pool.workers()[worker].pid < 0) continue;
    if (!take_results(worker)) lose_worker(worker, false, std::nullopt, "");
  }
  if (fds[0].revents != 0) take_signal();
  if (fds[1].revents != 0) read_feed();
}

void Supervisor::read_feed() {
  for (const std::string& line : p_.feed->read_lines()) add_line(line);
  if (num_lines_ == 0 && p_.feed->has_ended()) throw_empty(p_.place.name);
}

void Supervisor::add_line(const std::string& line) {
  ++num_lines_;
  const double now = p_.output.now_s();
  try {
    auto job = parse_job_line(line, num_lines_, p_.place, p_.options.defaults);
    if (!job) return;
    if (const std::string problem = p_.own.problem_of(*job); !problem.empty()) {
      return add_failed_line(problem, cli::kBadData);
    }
    if (!is_device(job->out) && !outs_seen_.insert(std::hash<std::string>{}(job->out)).second) {
      return add_failed_line(text(job->out, " is the output of an earlier line; give each job an output of its own"),
                             cli::kBadData);
    }
    if (p_.options.resume && is_done(p_.past, *job)) {
      p_.table.add_settled(std::move(*job), JobState::done_before);
    } else if (p_.options.resume && !p_.options.retry_failed && has_failed(p_.past, *job)) {
      p_.table.add_settled(std::move(*job), JobState::failed_before);
    } else {
      p_.table.add(std::move(*job), now);
    }
  } catch (const FormatError& e) {
    add_failed_line(e.what(), cli::kBadData);
  }
}

void Supervisor::add_failed_line(const std::string& message, int code) {
  const double now = p_.output.now_s();
  const std::uint64_t id = p_.table.add({.line = num_lines_}, now);
  p_.table.at(id).started_s = now;
  p_.table.refuse(id, {.id = id, .exit_code = code, .message = message});
  p_.output.job_ended(p_.table.at(id), p_.place.name);
}

void Supervisor::take_signal() {
  while (const int number = p_.signals.take()) {
    const double now = p_.output.now_s();
    if (!interrupted_) {
      interrupted_ = true;
      first_signal_s_ = now;
      if (phase_ == Phase::running) phase_ = Phase::draining;
      drop_at_s_ = now + p_.options.grace_s;
      p_.output.note(text("signal ", number, ": no new jobs, ", p_.table.counts().running, " running ones have ",
                          p_.options.grace_s, " s"));
    } else if (now - first_signal_s_ > kSameSignal && phase_ != Phase::dropping) {
      drop_running();
    }
  }
}

void Supervisor::look_at_clock() {
  const double now = p_.output.now_s();
  if (drop_at_s_ > 0 && now >= drop_at_s_ && phase_ != Phase::dropping) drop_running();
  if (kill_at_s_ > 0 && now >= kill_at_s_) {
    for (std::size_t w = 0; w < in_flight_.size(); ++w) {
      if (!in_flight_[w].empty()) lose_worker(w, true, std::nullopt, "");
    }
  }
  for (std::size_t w = 0; w < in_flight_.size(); ++w) {
    const std::vector<std::uint64_t> ids = in_flight_[w];  // a copy: looking may take the worker away
    for (const std::uint64_t id : ids) {
      const auto& left = in_flight_[w];
      if (std::find(left.begin(), left.end(), id) != left.end()) look_at_job(id, now);
    }
  }
}

void Supervisor::look_at_job(std::uint64_t id, double now) {
  JobRun& run = p_.table.at(id);
  if (run.deadline_s <= 0 || now < run.deadline_s || phase_ == Phase::dropping) return;
  const auto worker = static_cast<std::size_t>(run.worker);
  if (!run.cancelled) {
    run.cancelled = true;
    run.deadline_s = now + kCancelPatience;
    send_message(p_.pool.workers()[worker].socket.get(), CancelOrder{.id = id}, false);
    return;
  }
  lose_worker(worker, true, id, "hangs: it did not stop when it was asked to");
}

void Supervisor::drop_running() {
  phase_ = Phase::dropping;
  kill_at_s_ = p_.output.now_s() + kCancelPatience;
  for (std::size_t w = 0; w < in_flight_.size(); ++w) {
    for (const std::uint64_t id : in_flight_[w]) {
      send_message(p_.pool.workers()[w].socket.get(), CancelOrder{.id = id}, false);
    }
  }
}

}  // namespace spmm::batch
