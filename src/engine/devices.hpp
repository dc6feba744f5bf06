// The CUDA devices of an engine, started when needed, and the choice of the backend and the devices of a product.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/budget.hpp"
#include "base/run/parallel.hpp"
#include "cuda/backend.hpp"
#include "engine/product.hpp"
#include "plan/choice.hpp"
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

  /// Chooses the backend if the options leave it open, and starts its devices. CUDA is not touched if the CPU is asked
  /// for or chosen. Returns limits that name the backend, and sets the devices of `run`.
  /// Values: why_not_cuda = why CUDA may not be chosen; empty: it may; more_shares = where the memory of further
  /// devices is counted; that of the host and the first device is run.memory. All must outlive the run. Errors:
  /// UsageError (unknown kernel); DeviceError, CudaError (the devices do not start).
  plan::Limits choose(const Inputs& inputs, const ProductOptions& product, const ProductRecord& record,
                      const std::string& why_not_cuda, std::list<MemoryShare>& more_shares, cuda::DeviceRun& run);

  /// The backend that the options insist on; a device number insists on CUDA. Errors: UsageError.
  [[nodiscard]] Backend insisted_backend(const ProductOptions& product) const;

  /// Those that have been started so far; makes no CUDA call.
  [[nodiscard]] Contexts started() const;

 private:
  /// Whether the options insist on CUDA by naming devices.
  [[nodiscard]] bool are_named() const { return options_.device >= 0 || are_always_shared(); }
  /// Whether every product runs on all of them.
  [[nodiscard]] bool are_always_shared() const { return !options_.devices.empty(); }
  /// How many a product may share if the options leave that open; makes no CUDA call. Under a launcher that starts
  /// several processes on a node each has one device.
  [[nodiscard]] unsigned num_expected() const;
  /// The first `num` devices, or all that are named; fewer where others do not start that the options leave open.
  /// Errors: UsageError, DeviceError (CUDA has no device, or not one that is named), CudaError.
  Contexts start(unsigned num);
  void start_named(std::string& why_not);
  void add(std::shared_ptr<cuda::DeviceContext> context);
  [[nodiscard]] MemoryBudget& budget_of(std::size_t x);

  /// Seconds that a start would cost a product, less what others have lost without it.
  [[nodiscard]] double start_s() const;
  [[nodiscard]] std::uint64_t limit_bytes(std::uint64_t available_bytes) const;
  [[nodiscard]] std::uint64_t measured_host_bytes(bool stays_on_device);
  [[nodiscard]] plan::Gpu describe_gpu(const cuda::DeviceContext& device, MemoryShare& share,
                                       bool brings_memory = false) const;
  [[nodiscard]] std::vector<plan::Gpu> expect_gpus(MemoryShare& share) const;

  EngineOptions options_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  Contexts contexts_;
  std::deque<MemoryBudget> budgets_;  // of all but the first
  std::uint64_t host_bytes_ = 0;      // that were available to the process when it was measured
  std::chrono::steady_clock::time_point host_measured_{};
  double lost_s_ = 0;  // that products on the CPU would have ended earlier on a device that had been started
};

}  // namespace spmm
