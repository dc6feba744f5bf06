// What a worker process does with a job: the only file of the program that multiplies.
#pragma once

#include <atomic>
#include <cstdint>

#include "spmm/engine.hpp"
#include "spmm/report.hpp"
#include "tools/batch/worker/message.hpp"

namespace spmm::batch {

enum class WorkerKind : std::uint8_t { cpu, gpu };

/// Runs products of one worker process and keeps what outlives a product.
/// Threads: multiply() is called from several threads at once.
class ProductRunner {
 public:
  /// memory_limit_bytes: of all products together, host and device each; 0 = most of what is free.
  ProductRunner(WorkerKind kind, std::uint64_t memory_limit_bytes)
      : kind_(kind), engine_({.memory_limit_bytes = memory_limit_bytes}) {}

  /// Errors: every class of error.hpp; Interrupted once `cancel` is set.
  Report multiply(const JobOrder& order, const std::atomic<bool>& cancel);

 private:
  WorkerKind kind_;
  Engine engine_;
};

}  // namespace spmm::batch
