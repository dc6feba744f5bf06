// Every job of a run, its state, and which failures are tried again.
#include "tools/batch/schedule/table.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "tools/batch/journal/journal.hpp"

namespace spmm::batch {

void OperandUses::add(const Job& job) {
  const std::string a = job.operand_a();
  const std::string b = job.operand_b();
  ++uses_[a];
  if (b != a) ++uses_[b];
}

void OperandUses::remove(const Job& job) {
  const std::string a = job.operand_a();
  const std::string b = job.operand_b();
  drop(a);
  if (b != a) drop(b);
}

void OperandUses::drop(const std::string& operand) {
  const auto found = uses_.find(operand);
  if (found != uses_.end() && --found->second == 0) uses_.erase(found);
}

std::size_t OperandUses::num_waiting(const std::string& operand) const {
  const auto found = uses_.find(operand);
  return found == uses_.end() ? 0 : found->second;
}

Verdict judge(const JobRun& run, int code, bool blameless) {
  if (blameless) return Verdict::again;
  if (!may_pass(code)) return Verdict::failed;
  // Whose fault was it? Alone, each of them shows. What took too long is known by name.
  if (run.had_company && !run.cancelled) return Verdict::again_alone;
  return run.counted_failures < run.job.options.retries ? Verdict::again_alone : Verdict::failed;
}

std::size_t JobTable::place_of(const Job& job, std::uint64_t id) const {
  const std::string a = job.operand_a();
  const std::string b = job.operand_b();
  const std::size_t num_a = uses_.num_waiting(a);
  const std::size_t num_b = uses_.num_waiting(b);
  std::size_t place = waiting_.size();
  if (num_a + num_b == 0) return place;
  const std::string& shared = num_b >= num_a ? b : a;
  for (; place > 0 && waiting_[place - 1] + kMaxOvertaking >= id; --place) {
    const Job& before = at(waiting_[place - 1]).job;
    if (before.operand_a() == shared || before.operand_b() == shared) return place;
  }
  return waiting_.size();
}

std::uint64_t JobTable::add(Job job, double now_s, bool grouped) {
  const std::uint64_t id = first_id_ + runs_.size();
  const std::size_t place = grouped ? place_of(job, id) : waiting_.size();
  uses_.add(job);
  runs_.push_back({.job = std::move(job), .added_s = now_s});
  waiting_.insert(waiting_.begin() + static_cast<std::ptrdiff_t>(place), id);
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
    run.signal = 0;
    run.started_s = now_s;
    run.deadline_s = run.job.options.timeout_s > 0 ? now_s + run.job.options.timeout_s : 0;
    ++run.attempts;
    uses_.remove(run.job);
    run.keep_a = uses_.num_waiting(run.job.operand_a()) > 0;
    run.keep_b = uses_.num_waiting(run.job.operand_b()) > 0;
    taken.push_back(grant.job);
  }
  counts_.waiting -= grants.size();
  counts_.running += grants.size();
  std::sort(taken.begin(), taken.end(), std::greater<>());
  for (const std::size_t position : taken) waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(position));
}

void JobTable::succeed(std::uint64_t id, const JobResult& result, double now_s) {
  --counts_.running;
  ++counts_.done;
  counts_.in_bytes += result.in_bytes;
  counts_.out_bytes += result.out_bytes;
  counts_.pairs += result.pairs;
  counts_.saturated_elements += result.saturated_elements;
  counts_.saturated_jobs += result.saturated_elements > 0 ? 1 : 0;
  end(id, JobState::done, result, now_s);
}

void JobTable::fail(std::uint64_t id, const JobResult& result, double now_s) {
  --counts_.running;
  ++counts_.failed;
  end(id, JobState::failed, result, now_s);
}

void JobTable::refuse(std::uint64_t id, const JobResult& result, double now_s) {
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), id));
  uses_.remove(at(id).job);
  --counts_.waiting;
  ++counts_.failed;
  end(id, JobState::failed, result, now_s);
}

void JobTable::end(std::uint64_t id, JobState state, const JobResult& result, double now_s) {
  JobRun& run = at(id);
  run.state = state;
  run.result = result;
  run.ended_s = now_s;
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
  uses_.add(run.job);
}

}  // namespace spmm::batch
