// What outlives a product, and how an engine runs one.
#pragma once

#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>

#include "base/memory/budget.hpp"
#include "base/run/output.hpp"
#include "base/run/parallel.hpp"
#include "engine/devices.hpp"
#include "engine/product.hpp"
#include "spmm/engine.hpp"

namespace spmm {

class DeviceProduct;

class Engine::Impl {
 public:
  explicit Impl(const EngineOptions& options)
      : options_(options), devices_(options), budget_(options.memory_limit_bytes == 0) {}

  /// The product itself: everything between opening and closing, the same for files, matrices and the caller's streams.
  /// Values: sink = null: only a plan is made, in record.report.plan; out = how messages call the result.
  void multiply(const Source& a, const Source& b, Sink* sink, const std::string& out, const ProductOptions& given,
                ProductRecord& record);

  /// The same at the blocks of `pattern` alone, in memory. Errors: OutOfMemory, if that does not suffice.
  void multiply_given(const Inputs& inputs, const Source& pattern, Sink& sink, const std::string& out,
                      const ProductOptions& product, ProductRecord& record);

  /// On the device that holds operands and result.
  void multiply(DeviceProduct& product, ProductRecord& record, Report* report);

  struct HostProduct;
  /// Of other elements than u16: chains.cpp. Values: host = null for record.arrays.
  void multiply_chains(const Source& a, const Source& b, const ProductOptions& options, ProductRecord& record,
                       HostProduct* host = nullptr);
  /// Engine::multiply() of host arrays. Values: held_bytes = of operands that the engine has read itself.
  template <class T>
  BsrMatrix<ProductOf<T>> multiply_arrays(const BsrView<T>& a, const BsrView<T>& b, const ProductOptions& options,
                                          ProductRecord& record, const Accumulation<ProductOf<T>>& onto,
                                          std::uint64_t held_bytes = 0);

  /// A product with these options on the CPU.
  [[nodiscard]] cuda::DeviceRun run_of(const ProductOptions& product, StageClock& clock, MemoryShare* memory = nullptr);

  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] EngineDevices& devices() { return devices_; }
  [[nodiscard]] MemoryBudget& budget() { return budget_; }
  [[nodiscard]] Workers& workers() { return workers_; }
  [[nodiscard]] bool is_of_this_process() const { return process_ == ::getpid(); }
  /// Products from files.
  [[nodiscard]] std::atomic<unsigned>& num_running() { return num_running_; }

 private:
  static ProductStats multiply_uploaded(const Source& a, const Source& b, const HostProduct& host,
                                        const plan::Limits& limits, const cuda::DeviceRun& run);
  static ProductStats multiply_on_host(const Source& a, const Source& b, const HostProduct& host,
                                       const plan::Limits& limits, cuda::DeviceRun& run);
  void run_product(const Inputs& inputs, Sink* sink, Output* output, const ProductOptions& options,
                   const std::string& why_not_cuda, MemoryShare& share, ProductRecord& record);

  EngineOptions options_;
  pid_t process_ = ::getpid();
  Workers workers_;
  EngineDevices devices_;
  std::atomic<unsigned> num_running_{0};
  MemoryBudget budget_;  // of the host and the first device; goes before that: it holds operands that are kept there
};

/// C = A * B of arrays of u16 in host memory, without blocks of zeros.
BsrMatrix<std::uint32_t> multiply_saturating(Engine& engine, const BsrView<std::uint16_t>& a,
                                             const BsrView<std::uint16_t>& b, const ProductOptions& options,
                                             Report* report);

}  // namespace spmm
