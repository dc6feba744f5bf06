// A whole run of spmm-batch: list, shard, checks, journal, workers, supervisor, report.
#include "tools/batch/run.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/memory/machine_memory.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "io/files/paths.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "tools/batch/journal/check.hpp"
#include "tools/batch/supervisor.hpp"

namespace spmm::batch {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSparePercent = 10;  // of free memory is left to others if no limit was given
constexpr unsigned kCoresPerGpu = 2;         // feed a GPU with records; the rest computes
constexpr unsigned kMaxGpuThreads = 8;

/// CUDA_VISIBLE_DEVICES of each GPU worker. Errors: UsageError, DeviceError (the list needs a GPU and the machine has
/// none).
std::vector<std::string> gpus_of(const BatchOptions& options) {
  const std::vector<std::string> all = has_backend(Backend::cuda) ? visible_gpus() : std::vector<std::string>{};
  std::vector<std::string> gpus = wanted_gpus(options.gpus, "--gpus", all);
  if (options.defaults.backend == Backend::cpu) gpus.clear();
  if (options.defaults.backend == Backend::cuda && gpus.empty()) {
    throw DeviceError("--backend cuda", "no GPU was found",
                      "leave --backend out, or check nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  return gpus;
}

std::uint64_t memory_of(const BatchOptions& options) {
  if (options.memory_limit_bytes != 0) return options.memory_limit_bytes;
  return available_memory_bytes() / 100 * (100 - kSparePercent);
}

/// Workers share the memory limit equally; the jobs of one share what it has.
std::vector<PoolWorker> make_workers(const BatchOptions& options, const std::vector<std::string>& gpus,
                                     const JournalFolder* journal) {
  const unsigned cores = options.num_threads != 0 ? options.num_threads : usable_cores();
  const unsigned num_gpus = static_cast<unsigned>(gpus.size());
  std::vector<PoolWorker> workers;
  for (unsigned g = 0; g < num_gpus; ++g) {
    PoolWorker worker{.kind = WorkerKind::gpu, .name = text("gpu", g), .visible_devices = gpus[g]};
    worker.num_cores = std::clamp(cores / num_gpus, 1U, kMaxGpuThreads);
    workers.push_back(std::move(worker));
  }
  const unsigned taken = std::min(cores - 1, kCoresPerGpu * num_gpus);
  PoolWorker cpu{.kind = WorkerKind::cpu, .name = "cpu", .num_cores = cores - taken};
  // Single jobs may still ask for the CPU where the default is cuda.
  workers.push_back(std::move(cpu));
  const std::uint64_t share = std::max<std::uint64_t>(1, memory_of(options) / workers.size());
  for (PoolWorker& worker : workers) {
    worker.memory_limit_bytes = share;
    if (journal != nullptr) worker.journal = journal->open_writer(worker.name);
  }
  return workers;
}

std::string read_text(const std::string& path) {
  std::error_code none;
  if (fs::is_directory(path, none)) throw InputError(path, "is a directory, expected a list of jobs", "name a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw InputError(path, text("cannot be opened (", io::error_text(errno), ")"), "check the path of the list");
  try {
    std::string list(std::istreambuf_iterator<char>(file), {});
    if (list.empty()) throw_empty(path);
    return list;
  } catch (const std::ios_base::failure& error) {
    throw IoError(path, text("reading failed (", error.code().message(), ")"), "check the disk, then run again");
  }
}

ListPlace place_of(const std::string& list) {
  if (list == "-") return {.name = "standard input", .folder = working_folder()};
  const fs::path path = absolute_path(list, list.starts_with('/') ? "" : working_folder());
  return {.name = list, .folder = path.parent_path().string()};
}

/// Prints what is wrong with the list. Errors: FormatError, InputError or OutputError if anything is.
void refuse_problems(const std::string& name, const std::vector<std::string>& messages, std::uint64_t num_problems,
                     int code) {
  if (num_problems == 0) return;
  for (const std::string& message : messages) std::cerr << text("spmm-batch: error: ", printable(message), "\n");
  const std::string problem =
      text("has ", num_problems, num_problems == 1 ? " problem" : " problems", ", nothing was run");
  const std::string remedy = "repair the list, or feed it by standard input, where a bad line is a failed job";
  if (code == cli::kNoInput) throw InputError(name, problem, remedy);
  if (code == cli::kCannotCreate) throw OutputError(name, problem, remedy);
  throw FormatError(name, problem, remedy);
}

OwnFiles own_files(const BatchOptions& options) {
  OwnFiles own;
  if (options.list != "-") own.add("the list", options.list);
  own.add("--report", options.report);
  if (options.journal) own.add_journal(*options.journal);
  return own;
}

/// What every run has, with a journal or without.
struct Setting {
  std::vector<std::string> gpus;
  std::unique_ptr<JournalFolder> folder;  ///< null = no journal
  io::Descriptor journal;
  Journal past;
};

Setting open_setting(const BatchOptions& options) {
  Setting setting{.gpus = gpus_of(options), .folder = nullptr, .journal = {}, .past = {}};
  const std::string& report = options.report;
  if (!report.empty() && report != "-") io::find_target(report, false);  // said before the work, not after it
  if (!options.journal) return setting;
  setting.folder = std::make_unique<JournalFolder>(*options.journal, options.shard);
  if (options.resume) setting.past = setting.folder->read();
  setting.journal = setting.folder->open_writer("supervisor");
  return setting;
}

int supervise(const BatchOptions& options, const ListPlace& place, const Setting& setting, const OwnFiles& own,
              JobTable& table, LineFeed* feed) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  StopSignals signals;
  BatchOutput output(options);
  WorkerPool pool(make_workers(options, setting.gpus, setting.folder.get()), [&] {
    ::close(signals.fd());
    if (setting.journal.is_open()) ::close(setting.journal.get());
    if (feed != nullptr) ::close(feed->fd());  // the feeder sees the end of the supervisor
  });
  JournalWriter journal(setting.journal.get());
  Supervisor supervisor({.options = options,
                         .place = place,
                         .pool = pool,
                         .table = table,
                         .output = output,
                         .signals = signals,
                         .past = setting.past,
                         .journal = journal,
                         .own = own,
                         .feed = feed});
  const int code = supervisor.run();
  constexpr double kPatience = 5;
  pool.shut_down(kPatience);
  output.finish(table, pool.workers(), code);
  return code;
}

/// The shard's jobs into the table: those that were settled before aside.
void fill_table(const BatchOptions& options, const Setting& setting, std::vector<Job> jobs, JobTable& table) {
  std::vector<std::string> outs;
  for (Job& job : jobs) {
    if (options.resume && is_done(setting.past, job)) {
      table.add_settled(std::move(job), JobState::done_before);
    } else if (options.resume && !options.retry_failed && has_failed(setting.past, job)) {
      table.add_settled(std::move(job), JobState::failed_before);
    } else {
      outs.push_back(job.out);
      table.add(std::move(job), 0);
    }
  }
  if (options.resume && !options.dry_run) remove_leftovers(outs);
}

void print_jobs(const JobTable& table) {
  // A file or a pipe gets the names as they are: the lines are jobs.
  const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  const auto name = [&](const std::string& path) { return is_terminal ? printable(path) : path; };
  std::string lines;
  for (const JobRun& run : table.runs()) {
    if (run.state != JobState::waiting) continue;
    const JobOptions& options = run.job.options;
    lines += text(name(run.job.a), '\t', name(run.job.b), '\t', name(run.job.out),
                  options.transpose_a ? "\ttranspose-a=1" : "", options.transpose_b ? "\ttranspose-b=1" : "",
                  options.rows != RowRange{} ? "\trows=" + rows_text(options.rows) : "", '\n');
  }
  cli::print_answer(lines);
}

}  // namespace

int run_list(const BatchOptions& options) {
  const ListPlace place = place_of(options.list);
  JobList list = parse_job_list(read_text(options.list), place, options.defaults);
  refuse_problems(place.name, list.problems, list.num_problems, cli::kBadData);
  const std::vector<std::size_t> mine = jobs_of_shard(list, options.shard);
  const OwnFiles own = own_files(options);
  const ListProblems problems = check_list(list.jobs, mine, place.name, own);
  refuse_problems(place.name, problems.messages, problems.num_problems, problems.exit_code);
  std::vector<Job> jobs;
  jobs.reserve(mine.size());
  for (const std::size_t j : mine) jobs.push_back(std::move(list.jobs[j]));
  list = {};

  JobTable table(true);
  Setting setting;
  if (options.dry_run) {
    // Looks at a journal that is there and makes none.
    std::error_code none;
    if (options.resume && fs::is_directory(*options.journal, none)) setting = open_setting(options);
    fill_table(options, setting, std::move(jobs), table);
    print_jobs(table);
    return cli::kOk;
  }
  setting = open_setting(options);
  fill_table(options, setting, std::move(jobs), table);
  return supervise(options, place, setting, own, table, nullptr);
}

int run_feed(const BatchOptions& options) {
  if (options.dry_run) throw UsageError("--dry-run", "standard input is not known ahead", "give a list file");
  const ListPlace place = place_of(options.list);
  const OwnFiles own = own_files(options);
  const Setting setting = open_setting(options);
  JobTable table(!options.report.empty());
  LineFeed feed(STDIN_FILENO);
  return supervise(options, place, setting, own, table, &feed);
}

}  // namespace spmm::batch
