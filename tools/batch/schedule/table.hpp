// Every job of a run and what became of it; decides which failures are tried again. No system calls.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/batch/list/jobs.hpp"
#include "tools/batch/schedule/schedule.hpp"
#include "tools/batch/worker/message.hpp"

namespace spmm::batch {

enum class JobState : std::uint8_t {
  waiting,
  running,
  done,
  failed,
  done_before,    ///< by an earlier run, as the journal says
  failed_before,  ///< by an earlier run; --retry-failed runs it again
};
constexpr std::string_view state_name(JobState state) {
  constexpr std::string_view kNames[] = {"not run", "running", "done", "failed", "done before", "failed before"};
  return kNames[static_cast<std::size_t>(state)];
}

/// A job, and its last attempt.
struct JobRun {
  Job job;
  JobState state = JobState::waiting;
  std::optional<Demand> demand{};      ///< once its headers were read
  std::uint64_t attempts = 0;          ///< orders sent
  std::uint64_t counted_failures = 0;  ///< those it is to blame for
  int worker = -1;                     ///< that runs it, or ran it
  bool had_company = false;            ///< other jobs were in its worker meanwhile
  bool cancelled = false;              ///< asked to stop: it took too long
  Grant grant{};
  double added_s = 0, started_s = 0;  ///< on the supervisor's clock
  double deadline_s = 0;              ///< of the attempt, then of its worker's answer; 0 = none
  JobResult result{};
};

struct JobCounts {
  std::uint64_t total = 0, waiting = 0, running = 0, done = 0, failed = 0, done_before = 0, failed_before = 0;
  // Of jobs done in this run.
  std::uint64_t in_bytes = 0, out_bytes = 0, pairs = 0;
  std::uint64_t saturated_elements = 0, saturated_jobs = 0;

  [[nodiscard]] std::uint64_t finished() const { return done + failed; }
};

/// What follows a failure.
enum class Verdict : std::uint8_t { failed, again_alone, again };

/// Values: code = exit code of the attempt; blameless = it was stopped for what another job did.
/// A failure in company is tried again alone and not counted; one alone counts, and --retries says how many may follow.
Verdict judge(const JobRun& run, int code, bool blameless);

class JobTable {
 public:
  /// Values: keep = finished jobs stay for a report; else they go once all before them are finished.
  explicit JobTable(bool keep) : keep_(keep) {}

  std::uint64_t add(Job job, double now_s);
  /// A job that is not to be run.
  void add_settled(Job job, JobState state);

  [[nodiscard]] JobRun& at(std::uint64_t id) { return runs_.at(id - first_id_); }
  [[nodiscard]] const JobRun& at(std::uint64_t id) const { return runs_.at(id - first_id_); }
  [[nodiscard]] const JobCounts& counts() const { return counts_; }
  [[nodiscard]] const std::deque<JobRun>& runs() const { return runs_; }

  /// Jobs that wait, in the order in which they are offered.
  [[nodiscard]] const std::deque<std::uint64_t>& waiting() const { return waiting_; }

  /// The `grant.job`-th of the waiting jobs starts.
  /// Several at once: the positions are those before the first of them starts.
  void start(const std::vector<Grant>& grants, double now_s);

  void succeed(std::uint64_t id, const JobResult& result);
  void fail(std::uint64_t id, const JobResult& result);
  /// Back to the front of those that wait.
  void requeue(std::uint64_t id, bool alone, bool counted);

  /// A job that waits fails without having run.
  void refuse(std::uint64_t id, const JobResult& result);

  /// Lets go of finished jobs that no report wants.
  void forget_finished();

 private:
  void end(std::uint64_t id, JobState state, const JobResult& result);

  bool keep_;
  std::uint64_t first_id_ = 0;
  std::deque<JobRun> runs_;
  std::deque<std::uint64_t> waiting_;
  JobCounts counts_;
};

}  // namespace spmm::batch
