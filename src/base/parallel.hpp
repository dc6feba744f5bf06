// Threads for a bounded piece of work; the first exception is rethrown on the caller.
#pragma once

#include <cstdint>
#include <functional>

namespace spmm {

/// Cores this process may run on (affinity mask), at least 1.
unsigned usable_cores();

/// Runs body(worker) for worker = 0 .. num_workers - 1, each on its own thread (worker 0 on the caller's).
/// Errors: rethrows the first exception after all workers have returned.
void run_workers(unsigned num_workers, const std::function<void(unsigned worker)>& body);

/// Calls body(begin, end) on num_workers threads until [0, count) is covered, in pieces of at most `grain`, handed out
/// in order. A worker that throws stops the handing out.
void parallel_for(unsigned num_workers, std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t begin, std::uint64_t end)>& body);

}  // namespace spmm
