// A worker process: orders in, products, results out.
#include "tools/batch/worker/process.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/run/workers.hpp"
#include "base/temporary_names.hpp"
#include "cli/exit_codes.hpp"
#include "cli/failure.hpp"
#include "cli/program.hpp"
#include "io/formats/format.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/report.hpp"
#include "tools/batch/journal/journal.hpp"

namespace spmm::batch {
namespace {

constexpr unsigned kLastSeconds = 10;  // jobs have so long to stop once the supervisor is gone

std::int64_t done_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// A job on its way through the worker.
struct RunningJob {
  JobOrder order;
  std::atomic<bool> cancel{false};
};

/// Runs products of one worker process and keeps what outlives a product.
/// Threads: multiply() is called from several threads at once.
class ProductRunner {
 public:
  /// memory_limit_bytes: of all products together, host and device each; 0 = most of what is free.
  ProductRunner(WorkerKind kind, std::uint64_t memory_limit_bytes)
      : kind_(kind), engine_({.memory_limit_bytes = memory_limit_bytes}) {}

  /// Errors: every class of error.hpp; Interrupted once `cancel` is set.
  Report multiply(const JobOrder& order, const std::atomic<bool>& cancel) {
    ProductOptions options;
    options.backend = kind_ == WorkerKind::gpu ? Backend::cuda : Backend::cpu;
    options.kernel = order.job.options.kernel;
    options.max_threads = order.num_threads;
    options.transpose_a = order.job.options.transpose_a;
    options.transpose_b = order.job.options.transpose_b;
    options.rows = order.job.options.rows;
    options.durable = order.job.options.durable;
    options.no_clobber = order.job.options.no_clobber;
    options.verify_full = order.job.options.verify_blocks == cli::kVerifyFull;
    options.verify_blocks = options.verify_full ? 0 : order.job.options.verify_blocks;
    options.on_saturation = order.job.options.on_saturation;
    options.cancel = &cancel;
    return engine_.multiply(order.job.a, order.job.b, order.job.out, options);
  }

 private:
  WorkerKind kind_;
  Engine engine_;
};

class Worker {
 public:
  explicit Worker(const WorkerSetup& setup)
      : setup_(setup), journal_(setup.journal), runner_(setup.kind, setup.memory_limit_bytes) {}

  /// Until the socket closes.
  void serve() {
    while (true) {
      Received received = receive_message(setup_.socket, true);
      if (received.closed) return stop();
      if (!received.message) continue;
      if (auto* order = std::get_if<JobOrder>(&*received.message)) {
        start(std::move(*order));
      } else if (const auto* cancel = std::get_if<CancelOrder>(&*received.message)) {
        const std::lock_guard lock(mutex_);
        const auto found = jobs_.find(cancel->id);
        if (found != jobs_.end()) found->second->cancel.store(true);
      }
    }
  }

 private:
  /// Hands a job to an idle thread, or to a new one where all are busy: the supervisor bounds how many are in flight.
  /// If no thread can be started, a busy one runs the job later, or this one now, which then reads no orders meanwhile.
  void start(JobOrder order) {
    auto job = std::make_shared<RunningJob>();
    job->order = std::move(order);
    std::unique_lock lock(mutex_);
    jobs_.emplace(job->order.id, job);
    queue_.push_back(std::move(job));
    if (num_idle_ >= queue_.size()) return queue_changed_.notify_one();
    threads_.reserve(threads_.size() + 1);
    std::jthread thread = start_thread([this] { work(); });
    if (thread.joinable()) {
      threads_.push_back(std::move(thread));
    } else if (threads_.empty()) {
      ++num_idle_;
      run_next(lock);
      --num_idle_;
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (++num_idle_;;) {
      queue_changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      run_next(lock);
    }
  }

  /// Takes the first job of the queue from there, runs and reports it.
  void run_next(std::unique_lock<std::mutex>& lock) {
    --num_idle_;
    const auto job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const JobResult result = run(*job);
    lock.lock();
    jobs_.erase(result.id);
    ++num_idle_;  // before the supervisor hears of it and sends the next one, else threads would pile up
    lock.unlock();
    report(result);
    lock.lock();
  }

  /// A result that is lost would be waited for for ever: the end of this process tells the supervisor that there is
  /// something to be run again. (Where the supervisor is gone serve() comes to an end.)
  void report(const JobResult& result) const noexcept {
    try {
      const bool is_sent = send_message(setup_.socket, result, true) == SendState::sent;
      if (is_sent || errno == EPIPE || errno == ECONNRESET) return;
    } catch (...) {
    }
    remove_temporary_files();
    ::_exit(cli::kIoError);
  }

  JobResult run(const RunningJob& job) {
    const auto start = std::chrono::steady_clock::now();
    JobResult result{.id = job.order.id};
    try {
      multiply(job, result);
    } catch (...) {
      const cli::Failure failure = cli::failure_of_current_exception();
      result.exit_code = failure.exit_code;
      result.message = failure.message;
    }
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  void multiply(const RunningJob& running, JobResult& result) {
    const JobOrder& order = running.order;
    // Taken before the product: inputs that change under it are run again by --resume.
    const FileIdentity a = state_of(order.job.a).identity;
    const FileIdentity b = state_of(order.job.b).identity;
    const Report report = runner_.multiply(order, running.cancel);
    result.in_bytes = a.size + b.size;
    result.out_bytes = io::file_bytes_of(ElementType::u32, report.c);
    result.pairs = report.pairs;
    result.saturated_elements = report.saturated_elements;
    result.backend = report.plan.backend;
    result.kernel = report.plan.kernel;
    result.num_threads = report.plan.num_threads;
    const FileState out = state_of(order.job.out);
    if (!out.is_regular) return;  // /dev/null is never done
    const JournalRecord record{.key = key_of(order.job),
                               .time_ms = done_ms(),
                               .exit_code = 0,
                               .a = a,
                               .b = b,
                               .out = {.size = result.out_bytes, .mtime_ns = out.identity.mtime_ns},
                               .out_inode = out.inode,
                               .verified = order.job.options.verify_blocks,
                               .durable = order.job.options.durable,
                               .saturated_elements = report.saturated_elements,
                               .options = options_text(order.job.options)};
    try {
      journal_.append(record);
    } catch (const IoError& e) {
      result.message = e.what();  // the product is there; without the line --resume makes it once more
    }
  }

  /// Jobs that run are cancelled and waited for: their destructors remove temporary files.
  void stop() {
    ::alarm(kLastSeconds);
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      queue_.clear();
      for (const auto& [id, job] : jobs_) job->cancel.store(true);
    }
    queue_changed_.notify_all();
    for (std::jthread& thread : threads_) thread.join();
  }

  const WorkerSetup& setup_;
  JournalWriter journal_;
  ProductRunner runner_;
  std::mutex mutex_;
  std::condition_variable queue_changed_;
  std::deque<std::shared_ptr<RunningJob>> queue_;                        // with mutex_
  std::unordered_map<std::uint64_t, std::shared_ptr<RunningJob>> jobs_;  // in the queue or running; with mutex_
  std::vector<std::jthread> threads_;
  std::size_t num_idle_ = 0;  // threads that wait; with mutex_
  bool stopping_ = false;     // with mutex_
};

/// The supervisor died: the closed socket says the same to serve(), this bounds how long it may take.
void on_supervisor_death(int) {
  ::alarm(kLastSeconds);
}

/// Ends the process as the signal does by itself, with temporary files removed.
void end_by_signal(int number) {
  remove_temporary_files();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void prepare(const WorkerSetup& setup) {
  for (const int number : cli::kStopSignals) ::signal(number, end_by_signal);
  ::signal(SIGALRM, end_by_signal);
  // Signals for the whole group (Ctrl-C, a cluster's SIGTERM) are the supervisor's, who tells its workers.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGUSR2, on_supervisor_death);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGUSR2);
  if (::getppid() != setup.supervisor) ::_exit(1);  // it died before the line above
  ::prctl(PR_SET_NAME, ("spmm-" + setup.name).c_str());
  if (setup.gives_way) {
    constexpr int kNice = 5;
    static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNice));  // for the threads to come, too
  }
  if (setup.kind == WorkerKind::gpu) ::setenv("CUDA_VISIBLE_DEVICES", setup.visible_devices.c_str(), 1);
}

}  // namespace

void run_worker_process(const WorkerSetup& setup) {
  prepare(setup);
  int code = 0;
  try {
    // Never destroyed: the end of the process is quicker than an orderly one.
    (new Worker(setup))->serve();
  } catch (...) {
    code = cli::failure_of_current_exception().exit_code;
  }
  ::_exit(code);
}

}  // namespace spmm::batch
