// The part of the supervisor that hands out jobs and judges how they ended.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "spmm/error.hpp"
#include "tools/batch/journal/check.hpp"
#include "tools/batch/supervisor.hpp"

namespace spmm::batch {
namespace {

constexpr std::size_t kWindow = 64;  // waiting jobs among which a free slot chooses
constexpr unsigned kGpuSlots = 4;
constexpr unsigned kSlotsPerCore = 2;  // one job reads or writes while another computes
constexpr unsigned kMaxFailedStarts = 2;
constexpr unsigned kMaxLostOrders = 20;
constexpr double kKillPatience = 60;  // a killed process gives back pinned memory and a device, which takes seconds
constexpr double kDropPatience = 5;   // where the run ends anyway

std::int64_t epoch_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::vector<WorkerLoad> Supervisor::loads() const {
  std::vector<WorkerLoad> loads;
  for (std::size_t w = 0; w < in_flight_.size(); ++w) {
    const PoolWorker& worker = p_.pool.workers()[w];
    WorkerLoad load{.kind = worker.kind,
                    .usable = !worker.given_up,
                    .start_s = worker.kind == WorkerKind::gpu && !worker.is_warm ? model_.gpu_start_s() : 0,
                    .num_cores = worker.num_cores,
                    .num_slots = worker.kind == WorkerKind::gpu ? kGpuSlots : kSlotsPerCore * worker.num_cores,
                    .num_jobs = static_cast<unsigned>(in_flight_[w].size()),
                    .slowness = worker.slowness.factor()};
    load.max_jobs = p_.options.max_in_flight != 0 ? p_.options.max_in_flight : load.num_slots;
    for (const std::uint64_t id : in_flight_[w]) {
      const JobRun& run = p_.table.at(id);
      load.used_slots += run.grant.slots;
      load.backlog_s += run.grant.predicted_s;
      load.runs_alone = load.runs_alone || run.demand->alone;
    }
    loads.push_back(load);
  }
  return loads;
}

/// Jobs of the window that no worker can run fail; the others get their demands.
void Supervisor::refuse_hopeless() {
  const std::vector<WorkerLoad> workers = loads();
  for (std::size_t w = 0; w < p_.table.waiting().size() && w < kWindow;) {
    const std::uint64_t id = p_.table.waiting()[w];
    JobRun& run = p_.table.at(id);
    if (!run.demand) run.demand = model_.demand_of(headers_.shape_of(run.job), run.job.options);
    if (can_run(*run.demand, workers)) {
      ++w;
      continue;
    }
    const std::string problem = text("no worker for backend ", backend_name(run.demand->backend),
                                     "; leave the backend open, or look at --gpus and nvidia-smi");
    run.started_s = p_.output.now_s();
    p_.table.refuse(id, {.id = id, .exit_code = cli::kUnavailable, .message = problem});
    p_.output.job_ended(run, p_.place.name);
  }
}

void Supervisor::dispatch() {
  stalled_ = false;
  if (p_.table.waiting().empty()) return;
  refuse_hopeless();
  const auto& waiting = p_.table.waiting();
  const std::size_t num_offered = std::min(waiting.size(), kWindow);
  std::vector<Demand> demands;
  demands.reserve(num_offered);
  for (std::size_t w = 0; w < num_offered; ++w) demands.push_back(*p_.table.at(waiting[w]).demand);
  const std::vector<Grant> grants = hand_out(demands, loads(), waiting.size() - num_offered);
  if (phase_ != Phase::running || grants.empty()) return;
  std::vector<std::uint64_t> ids;
  for (const Grant& grant : grants) ids.push_back(waiting[grant.job]);
  p_.table.start(grants, p_.output.now_s());
  std::vector<std::uint64_t> unsent;
  for (std::size_t g = 0; g < grants.size(); ++g) {
    // A worker that is found to be lost may end the run.
    if (phase_ != Phase::running || !send_order(ids[g], grants[g].worker)) unsent.push_back(ids[g]);
  }
  for (auto id = unsent.rbegin(); id != unsent.rend(); ++id) {
    --p_.table.at(*id).attempts;
    p_.table.requeue(*id, false, false);
  }
}

/// False if the job did not reach the worker.
bool Supervisor::send_order(std::uint64_t id, std::size_t worker) {
  JobRun& run = p_.table.at(id);
  const JobOrder order{.id = id, .job = run.job, .num_threads = run.grant.num_threads};
  const SendState state = p_.pool.send(worker, order);
  if (state == SendState::full) stalled_ = true;
  const std::string& problem = p_.pool.workers()[worker].start_problem;
  if (state == SendState::full && !problem.empty() && !std::exchange(start_noted_, true)) {
    p_.output.note(text(problem, "; trying again"));
  }
  if (state == SendState::closed) {
    const int error = errno;
    lose_worker(worker, true, std::nullopt, "");
    if (++num_lost_orders_ == kMaxLostOrders) {
      throw IoError("workers", text("cannot be told what to do (", io::error_text(error), ")"),
                    "free memory and go on with --resume");
    }
  }
  if (state != SendState::sent) return false;
  num_lost_orders_ = 0;
  auto& ids = in_flight_[worker];
  p_.pool.workers()[worker].slowness.started(p_.output.now_s(), ids.empty());
  ids.push_back(id);
  if (ids.size() > 1) {
    for (const std::uint64_t other : ids) p_.table.at(other).had_company = true;
  }
  return true;
}

void Supervisor::remove_in_flight(std::size_t worker, std::uint64_t id) {
  auto& ids = in_flight_[worker];
  ids.erase(std::remove(ids.begin(), ids.end(), id), ids.end());
}

/// False once the worker is gone.
bool Supervisor::take_results(std::size_t worker) {
  while (p_.pool.workers()[worker].pid >= 0) {
    const Received received = receive_message(p_.pool.workers()[worker].socket.get(), false);
    if (received.closed) {
      // Where receiving has failed it lives on, and would be waited for.
      ::kill(p_.pool.workers()[worker].pid, SIGKILL);
      return false;
    }
    if (!received.message) return true;
    if (const auto* result = std::get_if<JobResult>(&*received.message)) take_result(worker, *result);
  }
  return true;
}

void Supervisor::take_result(std::size_t number, const JobResult& result) {
  PoolWorker& worker = p_.pool.workers()[number];
  const auto& ids = in_flight_[number];
  if (std::find(ids.begin(), ids.end(), result.id) == ids.end()) return;
  worker.busy_s += result.seconds;
  if (result.exit_code == cli::kOk) {
    remove_in_flight(number, result.id);
    worker.num_done += 1;
    worker.is_warm = true;
    worker.slowness.ended(p_.output.now_s(), p_.table.at(result.id).grant.predicted_s);
    worker.in_bytes += result.in_bytes;
    worker.out_bytes += result.out_bytes;
    p_.table.succeed(result.id, result);
    p_.output.job_ended(p_.table.at(result.id), p_.place.name);
    if (!result.message.empty()) note_journal(result.message);
    return;
  }
  if (breaks_worker(result.exit_code) && phase_ != Phase::dropping) {
    p_.table.at(result.id).result = result;  // lose_worker() tells the others from it
    return lose_worker(number, true, std::nullopt, result.message);
  }
  remove_in_flight(number, result.id);
  settle_failure(result.id, result, false);
}

void Supervisor::settle_failure(std::uint64_t id, JobResult result, bool blameless) {
  JobRun& run = p_.table.at(id);
  if (phase_ == Phase::dropping && (blameless || result.exit_code == cli::kInterrupted)) {
    return p_.table.requeue(id, false, false);  // not run
  }
  if (run.cancelled && result.exit_code == cli::kInterrupted) {
    result.message = text("took longer than its timeout of ", run.job.options.timeout_s, " s");
  }
  const Verdict verdict = judge(run, result.exit_code, blameless);
  if (verdict != Verdict::failed) {
    const bool counted = verdict == Verdict::again_alone && (run.cancelled || !run.had_company);
    return p_.table.requeue(id, verdict == Verdict::again_alone, counted);
  }
  if (go_to_cpu(run, result)) return;
  p_.pool.workers()[static_cast<std::size_t>(run.worker)].num_failed += 1;
  p_.table.fail(id, result);
  p_.output.job_ended(run, p_.place.name);
  record_failure(run);
}

/// A GPU that never finished anything may be no GPU of ours: its jobs go to the cores, and after some it gets no more.
bool Supervisor::go_to_cpu(JobRun& run, const JobResult& result) {
  PoolWorker& worker = p_.pool.workers()[static_cast<std::size_t>(run.worker)];
  if (worker.kind != WorkerKind::gpu || worker.num_done > 0 || !breaks_worker(result.exit_code) ||
      run.job.options.backend != Backend::automatic) {
    return false;
  }
  run.demand->backend = Backend::cpu;
  run.demand->alone = false;
  p_.table.requeue(result.id, false, false);
  worker.failed_starts += 1;
  if (worker.failed_starts == kMaxFailedStarts) {
    worker.given_up = true;
    p_.output.note(text(worker.name, " is not used any more: ", result.message));
  }
  return true;
}

void Supervisor::record_failure(const JobRun& run) {
  if (is_device(run.job.out)) return;
  try {
    p_.journal.append({.key = key_of(run.job),
                       .time_ms = epoch_ms(),
                       .exit_code = run.result.exit_code,
                       .a = state_of(run.job.a).identity,
                       .b = state_of(run.job.b).identity,
                       .options = options_text(run.job.options)});
  } catch (const IoError& e) {
    note_journal(e.what());  // without the line --resume tries the job once more
  }
}

void Supervisor::note_journal(const std::string& message) {
  if (!std::exchange(journal_noted_, true)) p_.output.note(message);
}

void Supervisor::lose_worker(std::size_t number, bool kill, std::optional<std::uint64_t> culprit,
                             const std::string& reason) {
  PoolWorker& worker = p_.pool.workers()[number];
  if (worker.pid < 0) return;
  const pid_t pid = worker.pid;
  const WorkerEnd end = p_.pool.end(number, kill, phase_ == Phase::dropping ? kDropPatience : kKillPatience);
  if (end.is_stuck) {
    // Its GPU is of no use; the cores are.
    worker.given_up = worker.kind == WorkerKind::gpu;
    p_.output.note(text(worker.name, ": process ", pid,
                        " does not end although it was killed; a disk or a driver holds it, ",
                        worker.given_up ? "and no job goes to this GPU any more" : "another process takes its place"));
  }
  // What it finished before its end is finished.
  const std::vector<std::uint64_t> before = in_flight_[number];
  for (const JobResult& result : end.results) {
    if (result.exit_code == cli::kOk) {
      take_result(number, result);
    } else if (std::find(before.begin(), before.end(), result.id) != before.end()) {
      p_.table.at(result.id).result = result;
    }
  }
  const int status = end.wait_status;
  const std::vector<std::uint64_t> ids = std::exchange(in_flight_[number], {});
  const std::string why = reason.empty() ? text("its worker died: ", status_text(status)) : reason;
  std::vector<std::string> outs;
  for (const std::uint64_t id : ids) outs.push_back(p_.table.at(id).job.out);
  remove_leftovers(outs);
  for (const std::uint64_t id : ids) {
    JobRun& run = p_.table.at(id);
    JobResult result = std::exchange(run.result, {});
    const bool said_why = result.exit_code != 0;
    if (!said_why) result = {.id = id, .exit_code = cli::kInternal, .message = why};
    if (culprit == id) result.exit_code = cli::kInterrupted;
    const bool blameless = (culprit && culprit != id) || phase_ == Phase::dropping;
    settle_failure(id, result, blameless);
  }
}

}  // namespace spmm::batch
