// What a run says: progress, failures, the table at the end and the JSON report.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/batch/options.hpp"
#include "tools/batch/schedule/pool.hpp"
#include "tools/batch/schedule/table.hpp"

namespace spmm::batch {

/// "120/1000 done, 2 failed, 6 running, 31.2 jobs/s, 1.25 GB/s, ETA 0:28".
/// Values: is_complete = no more jobs will come; only then there is an ETA.
std::string batch_line(const JobCounts& counts, double seconds, bool is_complete);

/// Jobs, seconds and bytes of each worker, then of all.
std::string summary_table(const JobCounts& counts, const std::vector<PoolWorker>& workers, double seconds);

class BatchOutput {
 public:
  explicit BatchOutput(const BatchOptions& options);

  /// Seconds since the object was made: the supervisor's clock.
  [[nodiscard]] double now_s() const;
  [[nodiscard]] bool draws() const { return draws_; }

  void job_ended(const JobRun& run, const std::string& list_name);
  /// A remark on standard error.
  void note(const std::string& message);
  /// Draws or logs the progress if it is time.
  void tick(const JobCounts& counts, bool is_complete);

  /// Table and report. Errors: OutputError.
  void finish(const JobTable& table, const std::vector<PoolWorker>& workers, int exit_code);

 private:
  void clear_line();
  void write_report(const JobTable& table, const std::vector<PoolWorker>& workers, double seconds, int exit_code) const;

  const BatchOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string host_;
  bool draws_;
  bool drawn_ = false;
  double next_tick_s_;
};

}  // namespace spmm::batch
