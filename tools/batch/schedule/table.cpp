// Every job of a run, its state, and which failures are tried again.
#include "tools/batch/schedule/table.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "tools/batch/journal/journal.hpp"

namespace spmm::batch {

Verdict judge(const JobRun& run, int code, bool blameless) {
  if (blameless) return Verdict::again;
  if (!may_pass(code)) return Verdict::failed;
  // Whose fault was it? Alone, each of them shows. What took too long is known by name.
  if (run.had_company && !run.cancelled) return Verdict::again_alone;
  return run.counted_failures < run.job.options.retries ? Verdict::again_alone : Verdict::failed;
}

std::uint64_t JobTable::add(Job job, double now_s) {
  const std::uint64_t id = first_id_ + runs_.size();
  runs_.push_back({.job = std::move(job), .added_s = now_s});
  waiting_.push_back(id);
  ++counts_.total;
  ++counts_.waiting;
  return id;
}

void JobTable::add_settled(Job job, JobState state) {
  ++counts_.total;
  ++(state == JobState::done_before ? counts_.done_before : counts_.failed_before);
  if (keep_) {
    runs_.push_back({.job = std::move(job), .state = state});
  }
}

void JobTable::start(const std::vector<Grant>& grants, double now_s) {
  std::vector<std::size_t> taken;
  for (const Grant& grant : grants) {
    JobRun& run = at(waiting_.at(grant.job));
    run.state = JobState::running;
    run.worker = static_cast<int>(grant.worker);
    run.grant = grant;
    run.had_company = false;
    run.cancelled = false;
    run.started_s = now_s;
    run.deadline_s = run.job.options.timeout_s > 0 ? now_s + run.job.options.timeout_s : 0;
    ++run.attempts;
    taken.push_back(grant.job);
  }
  counts_.waiting -= grants.size();
  counts_.running += grants.size();
  std::sort(taken.begin(), taken.end(), std::greater<>());
  for (const std::size_t position : taken) waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(position));
}

void JobTable::succeed(std::uint64_t id, const JobResult& result) {
  --counts_.running;
  ++counts_.done;
  counts_.in_bytes += result.in_bytes;
  counts_.out_bytes += result.out_bytes;
  counts_.pairs += result.pairs;
  counts_.saturated_elements += result.saturated_elements;
  counts_.saturated_jobs += result.saturated_elements > 0 ? 1 : 0;
  end(id, JobState::done, result);
}

void JobTable::fail(std::uint64_t id, const JobResult& result) {
  --counts_.running;
  ++counts_.failed;
  end(id, JobState::failed, result);
}

void JobTable::refuse(std::uint64_t id, const JobResult& result) {
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), id));
  --counts_.waiting;
  ++counts_.failed;
  end(id, JobState::failed, result);
}

void JobTable::end(std::uint64_t id, JobState state, const JobResult& result) {
  JobRun& run = at(id);
  run.state = state;
  run.result = result;
}

void JobTable::forget_finished() {
  if (keep_) return;
  const auto is_over = [](const JobRun& r) { return r.state != JobState::waiting && r.state != JobState::running; };
  for (; !runs_.empty() && is_over(runs_.front()); ++first_id_) runs_.pop_front();
}

void JobTable::requeue(std::uint64_t id, bool alone, bool counted) {
  JobRun& run = at(id);
  run.state = JobState::waiting;
  run.counted_failures += counted ? 1 : 0;
  if (run.demand) run.demand->alone = run.demand->alone || alone;
  --counts_.running;
  ++counts_.waiting;
  waiting_.push_front(id);
}

}  // namespace spmm::batch
