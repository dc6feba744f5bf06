#include "tools/batch/batch_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spmm::batch {
namespace {

constexpr double kMB = 1e6;

// The model, from whole products on two machines: CPU m = 8, 2 and 16 threads; GPU H200 with its context started.
constexpr double kCpuStart = 0.5e-3;        // seconds per product: opening, threads, rename
constexpr double kCpuMacsPerSecond = 8e9;   // multiply-adds of one thread
constexpr double kCpuBytesPerSecond = 1e9;  // of one thread, read, built or written
constexpr double kGpuStart = 4e-3;
constexpr double kGpuMacsPerSecond = 2e12;
constexpr double kHostBytesPerSecond = 8e9;  // one file, any number of threads
constexpr double kContextSeconds = 0.35;
constexpr double kForkSeconds = 5e-3;

constexpr double kSecondsPerThread = 0.02;              // a product of less than this gets no second thread
constexpr double kLongGpuSeconds = 0.05;                // takes two slots of a GPU: two such jobs overlap enough
constexpr std::uint64_t kMaxOutputBytes = 512'000'000;  // of a result that is on its way at a time

double macs_of(const JobShape& shape) {
  const double side = std::max(1.0, static_cast<double>(shape.a.blocks_per_side()));
  const double m = shape.a.m;
  return static_cast<double>(shape.a.num_blocks) * static_cast<double>(shape.b.num_blocks) / side * m * m * m;
}

double in_bytes_of(const JobShape& shape) {
  return static_cast<double>(shape.a.num_blocks) * static_cast<double>(input_record_bytes(shape.a.m)) +
         static_cast<double>(shape.b.num_blocks) * static_cast<double>(input_record_bytes(shape.b.m));
}

/// For evenly spread blocks.
double out_bytes_of(const JobShape& shape) {
  const double side = std::max(1.0, static_cast<double>(shape.a.blocks_per_side()));
  const double pairs = static_cast<double>(shape.a.num_blocks) * static_cast<double>(shape.b.num_blocks) / side;
  return side * side * -std::expm1(-pairs / (side * side)) * static_cast<double>(output_record_bytes(shape.a.m));
}

bool may_run(const Demand& job, const WorkerLoad& worker) {
  if (!worker.usable) return false;
  if (job.backend == Backend::automatic) return true;
  return job.backend == (worker.kind == WorkerKind::gpu ? Backend::cuda : Backend::cpu);
}

double seconds_on(const Demand& job, const WorkerLoad& worker) {
  return worker.kind == WorkerKind::gpu ? job.gpu_s : job.cpu_s;
}

unsigned slots_on(const Demand& job, const WorkerLoad& worker) {
  if (worker.kind == WorkerKind::gpu) return job.gpu_s > kLongGpuSeconds ? 2 : 1;
  return std::min(job.cpu_threads, worker.num_cores);
}

/// The share of the whole worker's time that the job takes.
double share_on(const Demand& job, const WorkerLoad& worker) {
  if (worker.kind == WorkerKind::gpu) return job.gpu_s;
  return job.cpu_s * slots_on(job, worker) / std::max(1U, worker.num_cores);
}

/// Where the job ends first; workers.size() where nowhere.
std::size_t best_worker(const Demand& job, const std::vector<WorkerLoad>& workers) {
  std::size_t best = workers.size();
  double best_s = std::numeric_limits<double>::infinity();
  for (std::size_t w = 0; w < workers.size(); ++w) {
    if (!may_run(job, workers[w])) continue;
    const double start = workers[w].started ? 0 : start_seconds(workers[w].kind);
    const double end = start + workers[w].backlog_s + seconds_on(job, workers[w]);
    if (end < best_s) {
      best_s = end;
      best = w;
    }
  }
  return best;
}

bool has_room(const Demand& job, const WorkerLoad& worker) {
  if (worker.num_jobs == 0) return true;
  if (job.alone || worker.runs_alone || worker.num_jobs >= worker.max_jobs) return false;
  return worker.used_slots + slots_on(job, worker) <= worker.num_slots;
}

/// Whether it takes no further job of any kind.
bool is_full(const WorkerLoad& worker) {
  return !worker.usable || (worker.num_jobs > 0 && (worker.runs_alone || worker.num_jobs >= worker.max_jobs ||
                                                    worker.used_slots >= worker.num_slots));
}

/// Memory of a job: what it needs, at least its slots' even share; 0 where it has to wait.
std::uint64_t memory_for(const Demand& job, unsigned slots, std::uint64_t bytes_per_slot, const MemoryLoad& memory) {
  const std::uint64_t wanted = std::max(job.host_bytes, bytes_per_slot * slots);
  if (memory.used_bytes == 0) return std::min(memory.total_bytes, wanted);
  return memory.used_bytes + wanted <= memory.total_bytes ? wanted : 0;
}

}  // namespace

double predicted_seconds(WorkerKind kind, const JobShape& shape, unsigned num_threads) {
  const double macs = macs_of(shape);
  const double bytes = in_bytes_of(shape) + out_bytes_of(shape);
  if (kind == WorkerKind::gpu) return kGpuStart + std::max(macs / kGpuMacsPerSecond, bytes / kHostBytesPerSecond);
  const double threads = std::max(1U, num_threads);
  return kCpuStart + macs / (threads * kCpuMacsPerSecond) +
         bytes / std::min(threads * kCpuBytesPerSecond, kHostBytesPerSecond);
}

double start_seconds(WorkerKind kind) {
  return kind == WorkerKind::gpu ? kContextSeconds : kForkSeconds;
}

Demand demand_of(const std::optional<JobShape>& shape, Backend backend, unsigned num_cores) {
  Demand demand{
      .cpu_s = kCpuStart, .gpu_s = kGpuStart, .host_bytes = static_cast<std::uint64_t>(kMB), .backend = backend};
  if (!shape) return demand;
  const double one_thread = predicted_seconds(WorkerKind::cpu, *shape, 1);
  demand.cpu_threads =
      static_cast<unsigned>(std::clamp(std::ceil(one_thread / kSecondsPerThread), 1.0, static_cast<double>(num_cores)));
  demand.cpu_s = predicted_seconds(WorkerKind::cpu, *shape, demand.cpu_threads);
  demand.gpu_s = predicted_seconds(WorkerKind::gpu, *shape, num_cores);
  // Both operands, as records and as the kernel wants them, and the results on their way to the file.
  demand.host_bytes = static_cast<std::uint64_t>(32 * kMB + 2.5 * in_bytes_of(*shape) +
                                                 std::min(out_bytes_of(*shape), static_cast<double>(kMaxOutputBytes)));
  return demand;
}

bool can_run(const Demand& job, const std::vector<WorkerLoad>& workers) {
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerLoad& w) { return may_run(job, w); });
}

std::vector<Grant> hand_out(const std::vector<Demand>& jobs, std::vector<WorkerLoad> workers, MemoryLoad memory) {
  std::vector<Grant> grants;
  unsigned all_slots = 0;
  for (const WorkerLoad& worker : workers) all_slots += worker.usable ? worker.num_slots : 0;
  const std::uint64_t bytes_per_slot = memory.total_bytes / std::max(1U, all_slots);
  std::vector<bool> is_reserved(workers.size(), false);  // drains for a job that wants to be alone
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (std::all_of(workers.begin(), workers.end(), is_full)) break;
    const std::size_t w = best_worker(jobs[j], workers);
    if (w == workers.size()) continue;
    WorkerLoad& worker = workers[w];
    const unsigned slots = slots_on(jobs[j], worker);
    const double share = share_on(jobs[j], worker);
    if (is_reserved[w] || !has_room(jobs[j], worker)) {
      is_reserved[w] = is_reserved[w] || jobs[j].alone;
      worker.backlog_s += share;
      continue;
    }
    const std::uint64_t bytes = memory_for(jobs[j], slots, bytes_per_slot, memory);
    if (bytes == 0 && memory.total_bytes != 0) break;
    grants.push_back({.job = j,
                      .worker = w,
                      .slots = slots,
                      .num_threads = worker.kind == WorkerKind::gpu ? worker.num_cores : slots,
                      .memory_bytes = bytes,
                      .predicted_s = share});
    memory.used_bytes += bytes;
    worker.backlog_s += share;
    worker.used_slots += slots;
    worker.num_jobs += 1;
    worker.runs_alone = jobs[j].alone;
  }
  return grants;
}

}  // namespace spmm::batch
