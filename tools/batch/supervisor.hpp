// Hands out jobs, watches workers, times and signals: one thread, one poll loop, no CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tools/batch/journal/check.hpp"
#include "tools/batch/journal/journal.hpp"
#include "tools/batch/list/line_feed.hpp"
#include "tools/batch/options.hpp"
#include "tools/batch/output.hpp"
#include "tools/batch/schedule/model.hpp"
#include "tools/batch/schedule/pool.hpp"
#include "tools/batch/schedule/table.hpp"

namespace spmm::batch {

/// cli::kStopSignals (unless ignored) as a file descriptor, blocked while the object lives.
class StopSignals {
 public:
  StopSignals();
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Takes one; 0 if none came.
  [[nodiscard]] int take() const;

 private:
  io::Descriptor fd_;
};

struct SupervisorParts {
  const BatchOptions& options;
  const ListPlace& place;
  WorkerPool& pool;
  JobTable& table;
  BatchOutput& output;
  StopSignals& signals;
  const Journal& past;       ///< of earlier runs
  JournalWriter& journal;    ///< for what failed
  const OwnFiles& own;       ///< no job of the feed may have them
  LineFeed* feed = nullptr;  ///< more jobs; null = the table has them all
};

class Supervisor {
 public:
  explicit Supervisor(const SupervisorParts& parts);

  /// Until all jobs are settled or the run was stopped; returns the exit code.
  int run();

 private:
  enum class Phase : std::uint8_t { running, draining, dropping };

  [[nodiscard]] bool is_over() const;
  void wait_for_events();
  void read_feed();
  void add_line(const std::string& line);
  void add_failed_line(const std::string& message, int code);
  void take_signal();
  void look_at_clock();
  void look_at_job(std::uint64_t id, double now);
  void dismiss_idle();
  void drop_running();

  void dispatch();
  void refuse_hopeless();
  std::vector<WorkerLoad> loads() const;
  bool send_order(std::uint64_t id, std::size_t worker);

  bool take_results(std::size_t worker);
  void take_result(std::size_t worker, const JobResult& result);
  void settle_failure(std::uint64_t id, JobResult result, bool blameless);
  void lose_worker(std::size_t worker, bool kill, std::optional<std::uint64_t> culprit, const std::string& reason);
  void record_failure(const JobRun& run);
  void note_journal(const std::string& message);
  bool go_to_cpu(JobRun& run, const JobResult& result);
  void remove_in_flight(std::size_t worker, std::uint64_t id);

  SupervisorParts p_;
  HeaderCache headers_;
  JobModel model_;
  std::vector<std::vector<std::uint64_t>> in_flight_;  ///< ids of each worker
  std::unordered_set<std::size_t> outs_seen_;          ///< hashes, of jobs that came by the feed
  Phase phase_ = Phase::running;
  bool interrupted_ = false;
  bool journal_noted_ = false;
  bool start_noted_ = false;
  bool stalled_ = false;          ///< a worker's socket was full
  unsigned num_lost_orders_ = 0;  // that no worker could be sent, in a row
  double first_signal_s_ = 0;
  double drop_at_s_ = 0;  ///< 0 = not set
  double kill_at_s_ = 0;
  std::uint64_t num_lines_ = 0;
};

}  // namespace spmm::batch
