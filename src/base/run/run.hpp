// What every step of a running product shares: threads, clock, progress, cancellation, memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/budget.hpp"
#include "base/run/parallel.hpp"
#include "base/run/stage_clock.hpp"
#include "spmm/error.hpp"
#include "spmm/report.hpp"
#include "spmm/selection.hpp"

namespace spmm {

struct Run {
  StageClock& clock;
  const ProgressFn& on_progress;              ///< may be empty
  const std::atomic<bool>* cancel = nullptr;  ///< may be null; true = stop soon
  unsigned num_threads = 1;                   ///< host threads of this product
  Workers* workers = nullptr;                 ///< where they come from; null = the pool of this process
  MemoryShare* memory = nullptr;              ///< what the product holds of its engine's memory; null = nothing counts
  Selection selection{};                      ///< elements of C that are kept

  /// Errors: Interrupted once the caller asked to stop. Call it at least a few times per second.
  void check_cancelled() const {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      throw Interrupted("spmm", "interrupted", "nothing was written, it is safe to run it again");
    }
  }

  /// Workers::run() on the threads of this product.
  void run_workers(unsigned num_workers, const std::function<void(unsigned worker)>& body) const {
    TraceLog* const trace = clock.trace();
    const TraceLane* const caller = trace == nullptr ? nullptr : trace->lane();
    if (caller == nullptr || caller->open == nullptr) return pool().run(num_workers, body);
    // The other threads are in the caller's stage.
    const std::string_view stage = caller->open->name;
    pool().run(num_workers, [&](unsigned worker) {
      const StageClock::Interval helping(trace->lane() == caller ? nullptr : trace, stage);
      body(worker);
    });
  }

  /// parallel_for() on the threads of this product.
  void parallel_for(std::uint64_t count, std::uint64_t grain,
                    const std::function<void(std::uint64_t begin, std::uint64_t end)>& body) const {
    spmm::parallel_for(num_threads, count, grain, body,
                       [&](unsigned num, const Workers::Body& work) { run_workers(num, work); });
  }

  [[nodiscard]] Workers& pool() const { return workers != nullptr ? *workers : process_workers(); }
};

/// Calls body(begin, end) for consecutive ranges that cover [0, count). Errors: Interrupted, what body throws.
template <class Body>
void for_ranges(const Run& run, std::uint64_t count, const Body& body) {
  constexpr std::uint64_t kElementsPerCheck = 1u << 20;  // a few nanoseconds each make some milliseconds
  for (std::uint64_t begin = 0; begin < count; begin += kElementsPerCheck) {
    run.check_cancelled();
    body(begin, std::min(count, begin + kElementsPerCheck));
  }
}

/// Progress of one stage, added up over threads.
class Progress {
 public:
  Progress(const Run& run, Stage stage, std::uint64_t total) : run_(run), stage_(stage), total_(total) {}

  /// Threads: any; the caller's function is called by one at a time.
  void add(std::uint64_t done) {
    if (!run_.on_progress) return;
    const std::lock_guard lock(mutex_);
    done_ += done;
    run_.on_progress(stage_, done_, total_);
  }

 private:
  const Run& run_;
  Stage stage_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

/// Largest absolute values of integers in the operands and in a C that is added; 0 if nobody asked.
struct Magnitudes {
  double a = 0;
  double b = 0;
  double c = 0;
};

/// What a backend says about a finished product.
struct ProductStats {
  std::uint64_t num_blocks = 0;  ///< result blocks handed to the sink
  std::uint64_t pairs = 0;       ///< block products
  std::uint64_t num_panels = 0;
  std::uint64_t peak_device_bytes = 0;  ///< 0 on the CPU
  std::uint64_t num_saturated = 0;      ///< elements of the result that are kMaxVal
  std::uint64_t num_dropped = 0;        ///< elements that are not zero and not kept, the triangle aside
  std::string device{};                 ///< name of the GPU, or of the instruction set on the CPU
  std::vector<DeviceShare> shares{};    ///< where several devices shared the product
  std::uint64_t max_row_pairs = 0;      ///< of chains: no row of A has more
  Magnitudes largest{};                 ///< the same
};

/// "2 x NVIDIA H200", or the names of different devices. Shapes: stats of at least one.
inline std::string names_of(const std::vector<ProductStats>& stats) {
  std::string names = stats.front().device;
  bool alike = true;
  for (std::size_t d = 1; d < stats.size(); ++d) {
    alike &= stats[d].device == stats.front().device;
    names += " + " + stats[d].device;
  }
  return alike && stats.size() > 1 ? std::to_string(stats.size()) + " x " + stats.front().device : names;
}

}  // namespace spmm
