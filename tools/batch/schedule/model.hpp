// What a job would take on each kind of worker: the library's own decision, from headers alone. No CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "plan/inputs/statistics.hpp"
#include "tools/batch/list/jobs.hpp"
#include "tools/batch/schedule/schedule.hpp"

namespace spmm::batch {

/// What the headers of a job tell.
struct JobShape {
  MatrixHeader a, b;
};

/// The machine as the decisions of a whole run see it, without starting a device.
/// Values: memory_bytes = host memory of all jobs together; has_gpu = some worker has a GPU.
plan::Machine batch_machine(unsigned num_cores, std::uint64_t memory_bytes, bool has_gpu);

/// Predicts jobs; equal ones are decided once.
class JobModel {
 public:
  /// Values: num_cpu_cores, num_gpu_threads = of the worker of each kind.
  JobModel(const plan::Machine& machine, unsigned num_cpu_cores, unsigned num_gpu_threads);

  /// Nothing is known of the shape where a header cannot be read or the headers do not fit each other: the worker will
  /// say why. The same if the library refuses the product.
  Demand demand_of(const std::optional<JobShape>& shape, const JobOptions& options);

  /// Predicted seconds from the start of a GPU's worker until it computes; 0 without GPUs.
  [[nodiscard]] double gpu_start_s() const { return gpu_start_s_; }

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, Backend, std::string>;

  [[nodiscard]] Demand decide_demand(const JobShape& shape, const JobOptions& options) const;
  [[nodiscard]] plan::Limits limits_of(Backend backend, const std::string& kernel, unsigned num_threads) const;

  plan::Machine machine_;
  unsigned num_cpu_cores_;
  unsigned num_gpu_threads_;
  double gpu_start_s_ = 0;
  std::map<Key, Demand> decided_;
};

/// Headers of inputs, each read once.
class HeaderCache {
 public:
  /// Nothing if a header cannot be read.
  std::optional<JobShape> shape_of(const Job& job);

 private:
  std::optional<MatrixHeader> header_of(const std::string& path);
  std::unordered_map<std::string, std::optional<MatrixHeader>> headers_;
};

}  // namespace spmm::batch
