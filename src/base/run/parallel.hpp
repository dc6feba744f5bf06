// Threads for a bounded piece of work; the first exception is rethrown on the caller.
#pragma once

#include <cstdint>
#include <functional>

#include "base/run/workers.hpp"

namespace spmm {

/// Cores this process may run on: of its affinity mask, and as many as the quota of its control groups when it started
/// pays for. At least 1.
unsigned usable_cores();

/// Workers::run() on the pool of this process.
void run_workers(unsigned num_workers, const std::function<void(unsigned worker)>& body);

/// Calls body(begin, end) on num_workers threads, or fewer, until [0, count) is covered, in pieces of at most `grain`,
/// handed out in order. A worker that throws stops the handing out. Errors: rethrows the first exception of a body.
void parallel_for(Workers& workers, unsigned num_workers, std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t begin, std::uint64_t end)>& body);

/// The same on the threads that `run` finds, as Workers::run() does.
void parallel_for(const std::function<void(unsigned num, const Workers::Body& work)>& run, unsigned num_workers,
                  std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t begin, std::uint64_t end)>& body);

/// The same on the pool of this process.
void parallel_for(unsigned num_workers, std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t begin, std::uint64_t end)>& body);

}  // namespace spmm
