// The command line of spmm-batch.
#include "tools/batch/options.hpp"

#include <array>
#include <filesystem>

#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::batch {
namespace {

constexpr std::uint64_t kMaxThreads = 4096;
constexpr std::uint64_t kMaxInFlight = 1024;

constexpr const char* kNotes = R"(
Examples:
  spmm-batch jobs.tsv                              every product of the list
  spmm-batch --resume jobs.tsv                     go on after an interruption
  spmm-batch --shard 3/8 --resume jobs.tsv         the third of eight parts of the list
  spmm-batch --timeout 10m --report r.json jobs.tsv
  make_jobs | spmm-batch -                         a list from standard input

The list has one product a line: A, B and OUT with tabs between, paths relative to the list's folder, then key=value
columns for what differs from the command line: backend, kernel, verify, on-saturation, transpose-a, transpose-b, rows
(FIRST:END, as spmm --rows), durable, no-clobber, timeout. Empty lines and lines that start with # are skipped.
A list is checked whole before any work starts. JOBS - reads it from standard input to its end, paths relative to the
working folder.

One worker process per GPU has several jobs at once; smaller jobs go to worker processes on the cores, one job each: as
many as there are cores and jobs, fewer for large operands. Each has an equal share of cores and memory; --in-flight 1
gives one job all of them. A worker that dies is replaced, and its job runs up to two more times.

JOBS.log beside the list (--log) gets a line for each job that is done. --resume skips a job if its line of the list is
the same, options included, and A, B and OUT have the size and time that they had then.
Each shard has a log and a report of its own (jobs.tsv.3-of-8.log, r.3-of-8.json); --resume reads those of all shards.

On a signal such as SIGTERM, SIGINT or SIGUSR1 no job starts any more; running ones have --grace seconds, then they are
dropped.

Variables where the option is not given: SPMM_BACKEND, SPMM_THREADS, SPMM_MEMORY_LIMIT.
Exit codes: 0 all done, 1 a job failed, 2 usage, 65 bad list, 66 a file of the list is missing, 73 an output, log or
report cannot be created, 74 reading or writing failed, 75 interrupted by a signal: --resume goes on.
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-batch", "Multiplies a list of pairs of matrices.\n");
  options.usage("[options] JOBS", "spmm batch");
  options.add_options("hidden")("jobs", "", value());
  options.add_options("Jobs, unless their line says otherwise")                       //
      ("backend", "auto = a GPU for larger products, cuda, cpu", value(), "BACKEND")  //
      ("kernel", "multiply kernel, as spmm --help lists them", value(), "NAME")       //
      ("verify", "before an output appears: prove some of its rows, as spmm --verify; full = all", value(),
       "full|N")  //
      ("on-saturation", "if elements reach 4294967295: report = say how many, error = the job fails", value(),
       "report|error")                                                 //
      ("transpose-a", "multiply by the transposes of all A")           //
      ("transpose-b", "the same of B")                                 //
      ("durable", "wait until each output would survive a power cut")  //
      ("no-clobber", "refuse to replace existing outputs")             //
      ("timeout", "a job that takes longer fails (30, 5m, 2h)", value(), "TIME");
  options.add_options("Machine")                                                                            //
      ("threads", "host threads of all jobs together; 0 = every core", value(), "N")                        //
      ("memory-limit", "host memory of all jobs together; default: most of what is free", value(), "SIZE")  //
      ("in-flight", "jobs at once on the cores, and on each GPU; default: a job per core, 4 on a GPU", value(), "N");
  options.add_options("Course of the list")                                                  //
      ("grace", "on a signal: time for running jobs (default: 20)", value(), "TIME")         //
      ("shard", "part I of N of the list: every N-th job", value(), "I/N")                   //
      ("log", "file of what is done; default: JOBS.log; /dev/null = none", value(), "FILE")  //
      ("resume", "skip what the log says is done")                                           //
      ("dry-run", "print the jobs that would run");
  options.add_options("Messages")                                                                   //
      ("report", "JSON with every job; - = standard output", value(), "FILE")                       //
      ("progress", "line on standard error: auto = on a terminal, always, never", value(), "WHEN")  //
      ("q,quiet", "print failures only");
  cli::add_common_options(options, "Messages");
  options.parse_positional({"jobs"});
  return options;
}

Job job_defaults(const cli::ParsedOptions& parsed) {
  Job defaults;
  defaults.product.backend = cli::backend_option(parsed);
  for (const char* const option : {"kernel", "verify", "on-saturation", "timeout"}) {
    if (const auto given = cli::option_text(parsed, option)) set_option(defaults, option, given->value, given->where);
  }
  for (const char* const option : {"transpose-a", "transpose-b", "durable", "no-clobber"}) {
    if (cli::option_flag(parsed, option)) set_option(defaults, option, "1", option);
  }
  Job checked = defaults;  // a line may name another backend
  settle_backend(checked, "--kernel");
  return defaults;
}

}  // namespace

Shard parse_shard(const std::string& given, const std::string& where) {
  constexpr std::uint64_t kMaxShards = 10'000'000;
  const std::size_t slash = given.find('/');
  if (slash == std::string::npos) {
    throw UsageError(where, "\"" + given + "\" is not a shard",
                     "write I/N, from 1/N to N/N; the templates in tools/cluster show it for Slurm and PBS");
  }
  const std::uint64_t count = cli::parse_count(given.substr(slash + 1), where, 1, kMaxShards);
  return {.index = cli::parse_count(given.substr(0, slash), where, 1, count) - 1, .count = count};
}

std::string file_of_shard(const std::string& path, const Shard& shard) {
  if (shard.count == 1 || path.empty() || path == "-" || path.starts_with("/dev/")) return path;
  const std::filesystem::path given = path;
  const std::string name =
      text(given.stem().string(), '.', shard.index + 1, "-of-", shard.count, given.extension().string());
  return (given.parent_path() / name).string();
}

BatchOptions parse_batch_options(int argc, const char* const* argv) {
  cli::OptionTable description = make_options();
  const auto parsed = cli::parse_strictly(description, argc, argv);
  BatchOptions options;
  options.command = {argv, argv + argc};
  options.answer = cli::requested_text(parsed, description, kNotes);
  if (options.answer) return options;
  options.defaults = job_defaults(parsed);

  options.list = cli::required_positional(parsed, "jobs", "list of jobs", cli::Dash::allowed);
  if (const auto shard = cli::option_text(parsed, "shard")) options.shard = parse_shard(shard->value, shard->where);
  const auto file = [&](const std::string& option) {
    const auto given = cli::option_text(parsed, option);
    if (given && given->value.empty()) throw UsageError(given->where, "the file name is empty", "name a file");
    return given ? given->value : "";
  };
  options.report = file_of_shard(file("report"), options.shard);
  options.log = file("log");
  if (options.log.empty() && options.list != "-") options.log = options.list + ".log";
  options.resume = cli::option_flag(parsed, "resume");
  if (options.resume && options.log.empty()) {
    throw UsageError("--resume", "standard input has no log", "name one with --log");
  }

  options.num_threads = static_cast<unsigned>(cli::option_count(parsed, "threads", 0, kMaxThreads).value_or(0));
  options.max_in_flight = static_cast<unsigned>(cli::option_count(parsed, "in-flight", 1, kMaxInFlight).value_or(0));
  const auto memory = cli::option_bytes(parsed, "memory-limit");
  if (memory == std::uint64_t{0}) throw UsageError("--memory-limit", "is 0 bytes", "give a limit such as 8G");
  options.memory_limit_bytes = memory.value_or(0);

  if (const auto grace = cli::option_text(parsed, "grace")) options.grace_s = parse_seconds(grace->value, grace->where);
  options.dry_run = cli::option_flag(parsed, "dry-run");
  options.quiet = cli::option_flag(parsed, "quiet");
  constexpr std::array kModes = {cli::ProgressMode::automatic, cli::ProgressMode::always, cli::ProgressMode::never};
  options.progress = kModes[cli::option_choice(parsed, "progress", {"auto", "always", "never"})];
  return options;
}

}  // namespace spmm::batch
