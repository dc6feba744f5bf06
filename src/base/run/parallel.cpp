// A pool of threads that sleep between pieces of work, and loops dealt out to them.
#include "base/run/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "base/memory/machine_memory.hpp"

namespace spmm {

/// One call of run(); lives on its caller's stack. Guarded by the pool's mutex, but for `body` and `num`.
struct Workers::Job {
  const Body& body;
  unsigned num;
  unsigned next = 1;         // index that is handed out next; the caller has 0
  unsigned num_running = 0;  // indices that run on threads of the pool
  std::exception_ptr failure{};
  std::condition_variable finished{};
};

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_.notify_all();
  for (std::jthread& thread : threads_) thread.join();
}

void Workers::run(unsigned num, const Body& body) {
  if (num <= 1) return body(0);
  Job job{.body = body, .num = num};
  {
    const std::lock_guard lock(mutex_);
    num_unclaimed_ += num - 1;
    try {
      jobs_.push_back(&job);
      start_missing_threads();
    } catch (const std::bad_alloc&) {  // the threads that are there, or the caller alone
    }
  }
  for (unsigned index = 1; index < num; ++index) work_.notify_one();
  run_index(job, 0);
  std::unique_lock lock(mutex_);
  while (job.next < num) {
    const unsigned index = claim(job);
    lock.unlock();
    run_index(job, index);
    lock.lock();
  }
  job.finished.wait(lock, [&] { return job.num_running == 0; });
  if (job.failure) std::rethrow_exception(job.failure);
}

void Workers::start_missing_threads() {
  while (num_idle_ < num_unclaimed_) {
    threads_.reserve(threads_.size() + 1);
    std::jthread thread = start_thread([this] { serve(); });
    if (!thread.joinable()) return;
    threads_.push_back(std::move(thread));
    ++num_idle_;
  }
}

unsigned Workers::claim(Job& job) {
  --num_unclaimed_;
  const unsigned index = job.next++;
  if (job.next == job.num) std::erase(jobs_, &job);  // nothing is left for others to find
  return index;
}

void Workers::run_index(Job& job, unsigned index) {
  try {
    job.body(index);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!job.failure) job.failure = std::current_exception();
  }
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job& job = *jobs_.front();
    const unsigned index = claim(job);
    ++job.num_running;
    --num_idle_;
    lock.unlock();
    run_index(job, index);
    lock.lock();
    ++num_idle_;
    if (--job.num_running == 0) job.finished.notify_one();  // under the lock: afterwards the job may be gone
  }
}

Workers& process_workers() {
  static Workers* const workers = new Workers;
  return *workers;
}

unsigned usable_cores() {
  static const unsigned quota = control_group_cores();  // reads some files: not for each product
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool is_known = sched_getaffinity(0, sizeof set, &set) == 0;
  const unsigned cores = is_known ? static_cast<unsigned>(CPU_COUNT(&set)) : std::thread::hardware_concurrency();
  return std::clamp(cores, 1u, quota);
}

void run_workers(unsigned num, const Workers::Body& body) {
  process_workers().run(num, body);
}

void parallel_for(unsigned num_workers, std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t, std::uint64_t)>& body, const RunWorkers& run) {
  if (count == 0) return;
  grain = std::max<std::uint64_t>(grain, 1);
  const std::uint64_t num_pieces = (count - 1) / grain + 1;
  std::atomic<std::uint64_t> next{0};
  const auto worker = [&](unsigned) {
    for (std::uint64_t piece = next++; piece < num_pieces; piece = next++) {
      try {
        body(piece * grain, std::min(count, (piece + 1) * grain));
      } catch (...) {
        next = num_pieces;
        throw;
      }
    }
  };
  run(static_cast<unsigned>(std::min<std::uint64_t>(num_pieces, std::max(1u, num_workers))), worker);
}

}  // namespace spmm
