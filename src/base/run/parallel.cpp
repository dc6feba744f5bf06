// Pieces of a loop dealt out to threads.
#include "base/run/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/memory/control_group.hpp"

namespace spmm {

unsigned usable_cores() {
  static const unsigned quota = control_group_cores();  // reads some files: not for each product
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool is_known = sched_getaffinity(0, sizeof set, &set) == 0;
  const unsigned cores = is_known ? static_cast<unsigned>(CPU_COUNT(&set)) : std::thread::hardware_concurrency();
  return std::clamp(cores, 1u, quota);
}

void run_workers(unsigned num_workers, const std::function<void(unsigned)>& body) {
  process_workers().run(num_workers, body);
}

void parallel_for(const std::function<void(unsigned, const Workers::Body&)>& run, unsigned num_workers,
                  std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t, std::uint64_t)>& body) {
  if (count == 0) return;
  grain = std::max<std::uint64_t>(grain, 1);
  const std::uint64_t num_pieces = (count - 1) / grain + 1;
  std::atomic<std::uint64_t> next{0};
  const auto worker = [&](unsigned) {
    while (true) {
      const std::uint64_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= num_pieces) return;
      try {
        body(piece * grain, std::min(count, (piece + 1) * grain));
      } catch (...) {
        next.store(num_pieces, std::memory_order_relaxed);
        throw;
      }
    }
  };
  run(static_cast<unsigned>(std::clamp<std::uint64_t>(num_pieces, 1, std::max(1u, num_workers))), worker);
}

void parallel_for(Workers& workers, unsigned num_workers, std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t, std::uint64_t)>& body) {
  parallel_for([&](unsigned num, const Workers::Body& work) { workers.run(num, work); }, num_workers, count, grain,
               body);
}

void parallel_for(unsigned num_workers, std::uint64_t count, std::uint64_t grain,
                  const std::function<void(std::uint64_t, std::uint64_t)>& body) {
  parallel_for(process_workers(), num_workers, count, grain, body);
}

}  // namespace spmm
