// What a running multiplication shares with its caller: clock, progress, cancellation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "spmm/error.hpp"
#include "spmm/report.hpp"

namespace spmm {

/// Called now and then with work done and total work of a stage (read: bytes; multiply: output block rows).
/// Threads: called from several threads, never at the same time for one run; must return quickly.
using ProgressFn = std::function<void(Stage stage, std::uint64_t done, std::uint64_t total)>;

/// What a backend says about a finished product.
struct ProductStats {
  std::uint64_t num_blocks = 0;  ///< result blocks handed to the sink
  std::uint64_t pairs = 0;       ///< block products
  std::uint64_t num_panels = 0;
  std::uint64_t peak_device_bytes = 0;  ///< 0 on the CPU
  std::string kernel{};                 ///< kernel that ran, where the plan left it open
  std::string reason{};                 ///< why that one
  std::string device{};                 ///< name of the GPU, or of the instruction set on the CPU
};

struct RunContext {
  StageClock& clock;
  const ProgressFn& on_progress;    ///< may be empty
  const std::atomic<bool>* cancel;  ///< may be null; true = stop soon

  /// Errors: Interrupted once the caller asked to stop. Call it at least a few times per second.
  void check_cancelled() const {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      throw Interrupted("spmm", "interrupted", "nothing was written, it is safe to run it again");
    }
  }
};

}  // namespace spmm
