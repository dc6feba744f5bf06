// Gives each job to the worker where it ends first.
#include "tools/batch/schedule/schedule.hpp"

#include <algorithm>
#include <limits>

namespace spmm::batch {
namespace {

constexpr double kLongestJob = 3600;      // where no started worker may run a job
constexpr double kLongGpuSeconds = 0.05;  // takes two slots of a GPU: two such jobs overlap enough

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

/// Time that the workers which have started would take for `num_behind` jobs like these.
double seconds_behind(const std::vector<Demand>& jobs, const std::vector<WorkerLoad>& workers, std::size_t num_behind) {
  if (num_behind == 0 || jobs.empty()) return 0;
  double sum = 0;
  for (const Demand& job : jobs) {
    double least = kLongestJob;
    for (const WorkerLoad& worker : workers) {
      if (worker.start_s == 0 && may_run(job, worker)) least = std::min(least, worker.slowness * share_on(job, worker));
    }
    sum += least;
  }
  const auto num_started =
      std::count_if(workers.begin(), workers.end(), [](const WorkerLoad& w) { return w.usable && w.start_s == 0; });
  return sum / static_cast<double>(jobs.size()) * static_cast<double>(num_behind) /
         static_cast<double>(std::max<std::ptrdiff_t>(1, num_started));
}

/// Where the job ends first; workers.size() where nowhere.
std::size_t best_worker(const Demand& job, const std::vector<WorkerLoad>& workers, double behind_s) {
  std::size_t best = workers.size();
  double best_s = std::numeric_limits<double>::infinity();
  for (std::size_t w = 0; w < workers.size(); ++w) {
    if (!may_run(job, workers[w])) continue;
    const double start = std::max(0.0, workers[w].start_s - behind_s);
    const double end = start + workers[w].slowness * (workers[w].backlog_s + seconds_on(job, workers[w]));
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

}  // namespace

void Slowness::started(double now_s, bool was_idle) {
  if (was_idle) since_s_ = now_s;
}

void Slowness::ended(double now_s, double predicted_s) {
  ++num_ended_;
  if (num_ended_ > kFewJobs) {
    busy_s_ += now_s - since_s_;
    predicted_s_ += predicted_s;
  }
  since_s_ = now_s;
}

double Slowness::factor() const {
  constexpr double kMost = 10;  // one job that waits for a lock must not shut a worker out
  return num_ended_ < 2 * kFewJobs || predicted_s_ <= 0 ? 1 : std::clamp(busy_s_ / predicted_s_, 1 / kMost, kMost);
}

bool can_run(const Demand& job, const std::vector<WorkerLoad>& workers) {
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerLoad& w) { return may_run(job, w); });
}

std::vector<Grant> hand_out(const std::vector<Demand>& jobs, std::vector<WorkerLoad> workers, std::size_t num_behind) {
  std::vector<Grant> grants;
  const double behind_s = seconds_behind(jobs, workers, num_behind);
  std::vector<bool> is_reserved(workers.size(), false);  // drains for a job that wants to be alone
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (std::all_of(workers.begin(), workers.end(), is_full)) break;
    const std::size_t w = best_worker(jobs[j], workers, behind_s);
    if (w == workers.size()) continue;
    WorkerLoad& worker = workers[w];
    const unsigned slots = slots_on(jobs[j], worker);
    const double share = share_on(jobs[j], worker);
    if (is_reserved[w] || !has_room(jobs[j], worker)) {
      is_reserved[w] = is_reserved[w] || jobs[j].alone;
      worker.backlog_s += share;
      continue;
    }
    grants.push_back({.job = j,
                      .worker = w,
                      .slots = slots,
                      .num_threads = worker.kind == WorkerKind::gpu ? worker.num_cores : slots,
                      .predicted_s = share});
    worker.backlog_s += share;
    worker.used_slots += slots;
    worker.num_jobs += 1;
    worker.runs_alone = jobs[j].alone;
  }
  return grants;
}

}  // namespace spmm::batch
