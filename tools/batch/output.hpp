// What a run says: progress, failures, the summary at the end and the JSON report.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tools/batch/list.hpp"
#include "tools/batch/worker.hpp"

namespace spmm::batch {

enum class JobState : std::uint8_t { waiting, running, done, failed, done_before };

/// What became of a job.
struct JobRun {
  JobState state = JobState::waiting;
  unsigned attempts = 0;  ///< those that another job ended are not counted
  bool is_alone = false;  ///< it may have broken a worker: no other job is to be there next time
  std::string worker{};   ///< that ran it last
  double started_s = 0;   ///< on the clock of the output
  JobResult result{};
};

/// Jobs by state.
struct JobCounts {
  std::array<std::uint64_t, 5> by_state{};
  std::uint64_t bytes = 0;  ///< read and written by jobs done in this run

  std::uint64_t& operator[](JobState state) { return by_state[static_cast<std::size_t>(state)]; }
  std::uint64_t operator[](JobState state) const { return by_state[static_cast<std::size_t>(state)]; }
  [[nodiscard]] std::uint64_t total() const {
    return std::accumulate(by_state.begin(), by_state.end(), std::uint64_t{0});
  }
};

/// "120/1000 done, 2 failed, 6 running, 31.2 jobs/s, 1.25 GB/s, ETA 0:28".
std::string batch_line(const JobCounts& counts, double seconds);

class BatchOutput {
 public:
  /// Values: runs = of all jobs; those that do not wait were done before.
  BatchOutput(const BatchOptions& options, const std::vector<JobRun>& runs);

  [[nodiscard]] const JobCounts& counts() const { return counts_; }
  /// A job gets another state.
  void change(JobRun& run, JobState state);

  /// Seconds since the object was made: the supervisor's clock.
  [[nodiscard]] double now_s() const;

  /// A remark on standard error.
  void note(const std::string& message);
  /// Draws or logs the progress if it is time.
  void tick();

  /// Summary and report. Errors: OutputError.
  void finish(const std::vector<Job>& jobs, const std::vector<JobRun>& runs, int exit_code);

 private:
  void clear_line();

  const BatchOptions& options_;
  JobCounts counts_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool draws_;
  bool is_drawn_ = false;
  double next_tick_s_;
};

}  // namespace spmm::batch
