// The parts of spmm-batch: the list of jobs and the command line; checks of files and the log; worker processes; what a
// run says; the supervisor.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cli/progress_bar.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/options.hpp"

namespace spmm::batch {

// ---- the list and the command line

/// One product. Paths are absolute. The command line gives the options, key=value columns of its line override them.
struct Job {
  std::uint64_t line = 0;  ///< in the list, from 1
  std::string a{}, b{}, out{};
  ProductOptions product{};
  double timeout_s = 0;        ///< 0 = none
  std::uint64_t in_bytes = 0;  ///< of A and B: check_list() fills it in
};

/// Origin of the lines of a list.
struct ListPlace {
  std::string name{};    ///< for messages
  std::string folder{};  ///< absolute; relative paths of the list start there
};

/// What is wrong with a list.
struct Problems {
  int exit_code = 0;                  ///< of the first problem; 0 = none
  std::vector<std::string> messages;  ///< the first kMaxShown of them
  std::uint64_t count = 0;

  static constexpr std::size_t kMaxShown = 20;
  void add(int code, const std::string& message);
};

/// A named kernel names its backend, too. Errors: UsageError (the job names another one).
void settle_backend(Job& job, const std::string& where);

/// "A<tab>B<tab>OUT[<tab>key=value]...": nothing for an empty line or a comment (#).
/// Values: defaults = a job without paths. Errors: FormatError, UsageError; both name list and line.
std::optional<Job> parse_job_line(std::string_view line, std::uint64_t number, const ListPlace& place,
                                  const Job& defaults);

/// A whole list. Values: a pure function of the text; it reads no file.
std::vector<Job> parse_job_list(std::string_view text, const ListPlace& place, const Job& defaults, Problems& problems);

/// The job as a line of a list, with the options that its output or its promise depends on.
std::string job_line(const Job& job);

/// "0:1000", or "1000:" for all from there on.
std::string rows_text(RowRange rows);

/// Absolute path without "//", "/./" and "/../" (links are not followed). Values: a relative path starts at `folder`,
/// or at the working folder if that is empty. Errors: InputError (the working folder was deleted).
std::string absolute_path(std::string_view path, const std::string& folder = "");

/// Seconds from "30", "1.5", "30s", "5m", "2h", "1d". Errors: UsageError that names `where`.
double parse_seconds(const std::string& text, const std::string& where);

/// Values: 0 <= index < count.
struct Shard {
  std::uint64_t index = 0;
  std::uint64_t count = 1;

  /// Whether it has the job at this position of the list: every count-th one.
  [[nodiscard]] bool has(std::uint64_t position) const { return position % count == index; }
};

/// "2/8", numbered from 1. Errors: UsageError.
Shard parse_shard(const std::string& text, const std::string& where);

/// A file that each shard writes for itself: "r.3-of-8.json" for "r.json". Values: unchanged if there is one shard
/// alone, and for "", "-" and devices.
std::string file_of_shard(const std::string& path, const Shard& shard);

struct BatchOptions {
  std::string list;  ///< path; "-" = standard input
  Job defaults;      ///< options of jobs whose line does not give them
  Shard shard;
  unsigned num_threads = 0;              ///< host threads of all workers; 0 = every core
  std::uint64_t memory_limit_bytes = 0;  ///< host, all jobs together; 0 = most of what is free
  unsigned max_in_flight = 0;            ///< jobs at once on the cores, and on each GPU; 0 = plan_workers() decides
  double grace_s = 20;
  std::string log;  ///< of all shards; "" = none
  bool resume = false;
  std::string report;  ///< "" = none, "-" = standard output
  bool dry_run = false;
  bool quiet = false;
  cli::ProgressMode progress = cli::ProgressMode::automatic;
  std::optional<std::string> answer{};  ///< to --help and the like: print it, nothing else
  std::vector<std::string> command;

  /// Of the list, for messages.
  [[nodiscard]] std::string list_name() const { return list == "-" ? "standard input" : list; }
};

/// Reads SPMM_* variables, then the arguments, which win. Errors: UsageError.
BatchOptions parse_batch_options(int argc, const char* const* argv);

// ---- files

/// Says whether a file is still the one it was.
struct FileState {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool exists = false;
  bool is_regular = false;  ///< and no device or folder
};
FileState state_of(const std::string& path);

/// Files that the run has for itself, which no job may read or write: "the list" or the option, and the path.
using OwnFiles = std::vector<std::pair<std::string, std::string>>;

/// What is wrong with the files of a list. The names of all jobs are compared (one OUT twice, an OUT that is an input);
/// files are examined for the jobs of the shard alone: missing inputs and folders, links to files of other jobs, files
/// of the run itself. Sets Job::in_bytes of the shard's jobs.
/// Errors: UsageError (two of the run's own files are one); OutputError (an OUT is a link without end).
void check_list(std::vector<Job>& jobs, const Shard& shard, const std::string& list, const OwnFiles& own,
                Problems& problems);

/// Whether any number of jobs may have this output: devices such as /dev/null, which are never done.
bool is_device(const std::string& path);

/// The job's line with the states of its files: those of A and B before the product, that of OUT after it. A job is
/// done if the log holds the line that its files give now.
std::string log_line(const Job& job, const FileState& a, const FileState& b, const FileState& out);

using DoneLines = std::unordered_set<std::string>;

/// The lines of a log, and of the logs of shards ("jobs.tsv.3-of-8.log" beside "jobs.tsv.log"); those that are not
/// there have none. Errors: IoError.
DoneLines read_logs(const std::string& path);

/// Whether the log holds the job's line as its files are now.
bool is_done(const DoneLines& lines, const Job& job);

/// The log of one run, locked while the object lives.
class Log {
 public:
  /// Errors: OutputError (cannot be created, is in use by another run, is no file; /dev/null keeps nothing).
  explicit Log(std::string path);

  /// Appends a line by one write(): the process may die at any moment. Errors: IoError.
  void append(const std::string& line);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  std::string path_;
  io::Descriptor fd_;
  bool is_torn_ = false;  ///< the last line has no end: the next one starts with a newline
};

// ---- workers

/// How a job ended: the numbers of it.
struct ResultNumbers {
  std::uint64_t job = 0;
  int exit_code = 0;   ///< as of `spmm`; 0 = the output is there
  double seconds = 0;  ///< from its start in the worker
  unsigned num_threads = 0;
  std::uint64_t in_bytes = 0, out_bytes = 0, pairs = 0, saturated_elements = 0;
  Backend backend = Backend::automatic;
  FileState a{}, b{}, out{};  ///< for the log
};
struct JobResult : ResultNumbers {
  std::string kernel{};
  std::string message{};  ///< why it failed
};

/// Sends one packet on a SOCK_SEQPACKET socket; long messages are cut. False if the other side is gone.
bool send_result(int socket, const JobResult& result);
/// Takes a packet that is there. Nothing if there is none; is_closed: nor will there be.
std::optional<JobResult> receive_result(int socket, bool& is_closed);

struct WorkerSetup {
  std::string name;                      ///< "cpu", "gpu0"
  std::string visible_device{};          ///< CUDA_VISIBLE_DEVICES of a GPU's worker; "" = works on the cores
  std::uint64_t memory_limit_bytes = 0;  ///< of all its jobs together
  unsigned num_threads = 1;              ///< of a job
  unsigned num_slots = 1;                ///< jobs at once
  bool gives_way = false;                ///< to the threads that feed GPUs
};

/// The signal by which the supervisor ends a worker at once, with nothing left behind; its death sends it, too.
extern const int kEndSignal;

/// Runs the jobs whose numbers come by the socket until it closes. For a freshly forked process without threads.
[[noreturn]] void run_worker(const WorkerSetup& setup, std::span<const Job> jobs, int socket, pid_t supervisor);

// ---- what a run says

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

// ---- the supervisor

/// The workers: one for each GPU, which has several jobs at once; and on the cores, each with one job at a time, as
/// many as there are cores, jobs, and shares of the memory with room for four times the largest operands. If both have
/// jobs, each kind has half of the memory. Values: gpus = CUDA_VISIBLE_DEVICES of each; max_in_flight = jobs at once on
/// the cores and on each GPU, 0 = these numbers.
std::vector<WorkerSetup> plan_workers(const std::vector<Job>& jobs, const std::vector<std::string>& gpus,
                                      unsigned num_cores, std::uint64_t memory_bytes, unsigned max_in_flight);

/// Runs the jobs that wait until all are settled or a signal stops the run; returns the exit code.
/// Values: runs[j] = of jobs[j]; log = null: none is kept. Errors: IoError (no worker process can be started).
int supervise(const std::vector<Job>& jobs, std::vector<JobRun>& runs, const std::vector<WorkerSetup>& workers,
              const BatchOptions& options, Log* log, BatchOutput& output);

}  // namespace spmm::batch
