// Predicts what a job takes on each kind of worker.
#include "tools/batch/schedule/model.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/backend.hpp"
#include "cpu/simd/isa.hpp"
#include "plan/decide.hpp"
#include "plan/models/run_models.hpp"
#include "plan/registry.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::batch {
namespace {

constexpr double kSecondsPerThread = 0.02;  // a product of less than this gets no second thread
constexpr double kNowhereS = 1e9;           // refused there: only if nothing else is left
constexpr std::size_t kMaxKept = 100'000;   // headers, decisions

/// A device before its start: the rates of the models are those of a GPU with tensor cores for bytes. The
/// worker decides with the device's own figures; here only times are compared.
plan::Gpu unseen_gpu() {
  return {.name = "GPU", .limit_bytes = std::uint64_t{16} << 30, .has_dense_tensor = true};
}

}  // namespace

plan::Machine batch_machine(unsigned num_cores, std::uint64_t memory_bytes, bool has_gpu) {
  plan::Machine machine{.num_cores = num_cores,
                        .host_limit_bytes = memory_bytes,
                        .isa = cpu::choose_isa(),
                        .why_no_gpu = "no GPU was found"};
  if (has_gpu) machine.gpus.push_back(unseen_gpu());
  return machine;
}

JobModel::JobModel(const plan::Machine& machine, unsigned num_cpu_cores, unsigned num_gpu_threads)
    : machine_(machine), num_cpu_cores_(std::max(1U, num_cpu_cores)), num_gpu_threads_(std::max(1U, num_gpu_threads)) {
  if (!machine_.gpus.empty()) gpu_start_s_ = plan::kDeviceStartS;
}

plan::Limits JobModel::limits_of(Backend backend, const std::string& kernel, unsigned num_threads) const {
  plan::Limits limits = plan::limits_of(machine_, num_threads);
  limits.num_cores = backend == Backend::cpu ? num_cpu_cores_ : num_gpu_threads_;
  limits.backend = backend;
  const auto id = plan::kernel_named(kernel);
  if (id && plan::row_of(*id).backend == backend) limits.kernel = id;
  return limits;
}

Demand JobModel::decide_demand(const JobShape& shape, const JobOptions& options) const {
  const plan::Statistics expected = plan::expected_of_rows(shape.a, shape.b, options.rows);
  const auto decide = [&](Backend backend, unsigned threads) {
    return plan::decide(expected, limits_of(backend, options.kernel, threads));
  };
  Demand demand{.backend = options.backend};
  bool fits_cpu = false;
  bool fits_gpu = false;
  if (options.backend != Backend::cuda) {
    plan::Execution e = decide(Backend::cpu, 1);
    const double threads = std::ceil(e.predicted_s / kSecondsPerThread);
    demand.cpu_threads = static_cast<unsigned>(std::clamp(threads, 1.0, static_cast<double>(num_cpu_cores_)));
    if (demand.cpu_threads > 1) e = decide(Backend::cpu, demand.cpu_threads);
    fits_cpu = !e.is_refused();
    demand.cpu_s = e.predicted_s;
  }
  if (options.backend != Backend::cpu && !machine_.gpus.empty()) {
    const plan::Execution e = decide(Backend::cuda, num_gpu_threads_);
    fits_gpu = !e.is_refused();
    demand.gpu_s = e.predicted_s;
  }
  if (fits_cpu && !fits_gpu) demand.gpu_s = kNowhereS;
  if (fits_gpu && !fits_cpu) demand.cpu_s = kNowhereS;
  return demand;
}

Demand JobModel::demand_of(const std::optional<JobShape>& shape, const JobOptions& options) {
  if (!shape || shape->a.n != shape->b.n || shape->a.m != shape->b.m) return {.backend = options.backend};
  if (decided_.size() >= kMaxKept) decided_.clear();
  const auto [at, is_new] = decided_.try_emplace(
      Key{shape->a.n, shape->a.m, shape->a.num_blocks, shape->b.num_blocks, options.backend, options.kernel});
  if (is_new) at->second = decide_demand(*shape, options);
  return at->second;
}

std::optional<MatrixHeader> HeaderCache::header_of(const std::string& path) {
  if (headers_.size() >= kMaxKept) headers_.clear();
  const auto [at, is_new] = headers_.try_emplace(path);
  if (!is_new) return at->second;
  try {
    at->second = read_header(path);
  } catch (const Error&) {
    // The worker will say why.
  }
  return at->second;
}

std::optional<JobShape> HeaderCache::shape_of(const Job& job) {
  const auto a = header_of(job.a);
  const auto b = header_of(job.b);
  if (!a || !b) return std::nullopt;
  return JobShape{.a = *a, .b = *b};
}

}  // namespace spmm::batch
