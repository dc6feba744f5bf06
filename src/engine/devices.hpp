// The CUDA devices of an engine: which they are, started when needed, and the memory limits of all but the first.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/memory/budget.hpp"
#include "cuda/backend.hpp"
#include "spmm/options.hpp"

namespace spmm {

/// EngineOptions::devices and ::device. Errors: UsageError (a device is named twice, or both ways).
void check_device_list(const std::vector<int>& named, int device);

/// Threads: any.
class EngineDevices {
 public:
  using Contexts = std::vector<std::shared_ptr<cuda::DeviceContext>>;

  /// Errors: those of check_device_list().
  explicit EngineDevices(const EngineOptions& options);
  EngineDevices(const EngineDevices&) = delete;
  EngineDevices& operator=(const EngineDevices&) = delete;

  /// Whether the options insist on CUDA by naming devices.
  [[nodiscard]] bool are_named() const { return wanted_ >= 0 || !named_.empty(); }
  /// Whether every product runs on all of them.
  [[nodiscard]] bool are_always_shared() const { return !named_.empty(); }

  /// Those that have been started so far; makes no CUDA call.
  [[nodiscard]] Contexts started() const;
  /// How many a product may share if the options leave that open; makes no CUDA call. Under a launcher that starts
  /// several processes on a node each has one device.
  [[nodiscard]] unsigned num_expected() const;

  /// The first `num` devices, or all that are named; fewer where others do not start that the options leave open. None
  /// and `why_not` where CUDA has no device.
  /// Errors: UsageError, DeviceError (a named device does not exist), CudaError.
  Contexts start(unsigned num, std::string& why_not);

  /// The memory of device x (not of the first one, which has the engine's own budget).
  [[nodiscard]] MemoryBudget& budget_of(std::size_t x);

  /// Seconds that a start would cost a product, less what others have lost without it.
  [[nodiscard]] double start_s() const;
  void add_lost(double seconds);

 private:
  void start_named(std::string& why_not);
  void start_more(unsigned num);
  void add(std::shared_ptr<cuda::DeviceContext> context);

  int wanted_;
  std::vector<int> named_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  Contexts contexts_;
  std::deque<MemoryBudget> budgets_;  // of all but the first
  double lost_s_ = 0;  // that products on the CPU would have ended earlier on a device that had been started
};

}  // namespace spmm
