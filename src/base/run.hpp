// What every step of a running product shares: threads, clock, progress, cancellation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/parallel.hpp"
#include "base/stage_clock.hpp"
#include "spmm/error.hpp"
#include "spmm/report.hpp"

namespace spmm {

struct Run {
  StageClock& clock;
  const ProgressFn& on_progress;              ///< may be empty
  const std::atomic<bool>* cancel = nullptr;  ///< may be null; true = stop soon
  unsigned num_threads = 1;                   ///< host threads of this product

  /// Errors: Interrupted once the caller asked to stop. Call it at least a few times per second.
  void check_cancelled() const {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      throw Interrupted("spmm", "interrupted", "nothing was written, it is safe to run it again");
    }
  }

  /// parallel_for() on the threads of this product.
  void parallel_for(std::uint64_t count, std::uint64_t grain,
                    const std::function<void(std::uint64_t begin, std::uint64_t end)>& body) const {
    spmm::parallel_for(num_threads, count, grain, body);
  }
};

/// What a backend says about a finished product.
struct ProductStats {
  std::uint64_t num_blocks = 0;  ///< result blocks handed to the sink
  std::uint64_t pairs = 0;       ///< block products
  std::uint64_t num_panels = 0;
  std::uint64_t peak_device_bytes = 0;  ///< 0 on the CPU
  std::string device{};                 ///< name of the GPU, or of the instruction set on the CPU
};

}  // namespace spmm
