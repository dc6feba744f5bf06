// Threads that outlive a piece of work and are used again by the next one; the first exception is rethrown on the
// caller.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace spmm {

/// A thread that runs `body`; one that is not joinable if the system starts no more threads (RLIMIT_NPROC, pids.max,
/// memory). The caller then does without, or does the work itself.
template <class Body>
std::jthread start_thread(Body&& body) noexcept {
  try {
    return std::jthread(std::forward<Body>(body));
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  return {};
}

/// An elastic pool: threads are started when work finds no idle one, and kept until the pool goes.
/// Threads: run() may be called from several threads at once, also by a body that runs on the pool.
class Workers {
 public:
  using Body = std::function<void(unsigned index)>;

  Workers() = default;
  /// No run() may be in progress.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs body(index) once for each index = 0 .. num - 1 (num = 0 counts as 1); index 0 on the caller's thread, the
  /// others each on a thread of the pool if there are enough. Where a thread cannot be started, or wakes up late, an
  /// index is run by a thread that has finished another one, on the caller's if need be. So a body may wait for what an
  /// index that has been started will do, but never for an index to be started: no barriers.
  /// Errors: rethrows the first exception of a body after all indices have been run; throws nothing else.
  void run(unsigned num, const Body& body);

 private:
  struct Job;

  void serve();
  void start_missing_threads();
  unsigned claim(Job& job);
  void run_index(Job& job, unsigned index);

  std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_:
  std::vector<Job*> jobs_;      // with unclaimed indices, oldest first
  unsigned num_unclaimed_ = 0;  // indices of all jobs that no thread has taken
  unsigned num_idle_ = 0;       // threads that run no body
  bool closing_ = false;
  std::vector<std::jthread> threads_;
};

/// The pool of this process, for work that is given no other. It is never destroyed: exit() may come while others work.
/// A child of fork() has none of its threads; work still gets done there, on the caller's.
Workers& process_workers();

/// Cores this process may run on: of its affinity mask, and as many as the quota of its control groups when it started
/// pays for. At least 1.
unsigned usable_cores();

/// Runs body(index) for index = 0 .. num - 1, as Workers::run() does.
using RunWorkers = std::function<void(unsigned num, const Workers::Body& body)>;

/// Workers::run() on the pool of this process.
void run_workers(unsigned num, const Workers::Body& body);

/// Calls body(begin, end) on num_workers threads, or fewer, until [0, count) is covered, in pieces of at most `grain`,
/// handed out in order. A worker that throws stops the handing out. Errors: rethrows the first exception of a body.
void parallel_for(unsigned num_workers, std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t begin, std::uint64_t end)>& body,
                  const RunWorkers& run = run_workers);

}  // namespace spmm
