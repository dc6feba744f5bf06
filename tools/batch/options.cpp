// The command line of spmm-batch.
#include "tools/batch/options.hpp"

#include <array>

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
constexpr std::uint64_t kMaxRetries = 100;

constexpr const char* kNotes = R"(
Examples:
  spmm-batch jobs.tsv                              every product of the list
  spmm-batch --resume jobs.tsv                     go on after an interruption
  spmm-batch --shard auto --resume jobs.tsv        in a Slurm array: this task's part of the list
  spmm-batch --timeout 10m --report r.json jobs.tsv
  make_jobs | spmm-batch --journal done -          jobs as they are made
  parallel --pipe -N 100 spmm-batch - < jobs.tsv

The list has one product a line: A, B and OUT with tabs between, paths relative to the list's folder, then key=value
columns for what differs from the command line: backend, kernel, verify, on-saturation, transpose-a, transpose-b, rows
(FIRST:END, as spmm --rows), durable, no-clobber, timeout, retries, and cost (any unit; balances shards). Empty lines and lines that start with # are skipped.
A file is checked whole before any work starts. JOBS - reads standard input as it comes, paths relative to the working folder; a bad line is a failed job.

One worker process per GPU and one for the cores run the jobs, several at once, each job where it ends first. A worker
that dies or hangs is replaced: what ran beside the culprit is run again, the culprit --retries times, alone.

The journal remembers what is done: inputs with their sizes and times, OUT with its inode too.
A job that now asks for more than it was run with (verify, durable, on-saturation=error if elements saturated) is not
done; other options do not change the bytes.
It is JOBS.journal beside the list unless --journal names another folder; standard input has none without --journal.
--resume skips what is done or failed before, --retry-failed runs what failed again. Shards of one list share a journal;
each writes a report of its own (r.3-of-8.json for --report r.json).

On a signal such as SIGTERM, SIGINT or SIGUSR1 no job starts any more; running ones have --grace seconds, then they are
dropped.

Variables where the option is not given: SPMM_BACKEND, SPMM_THREADS, SPMM_MEMORY_LIMIT.
Exit codes: 0 all done, 1 a job failed, 2 usage, 65 bad list, 66 a file of the list is missing, 73 an output, journal or
report cannot be created, 74 reading or writing failed, 75 interrupted by a signal: --resume goes on.
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-batch", "Multiplies a list of pairs of matrices.\n");
  options.usage("[options] JOBS", "spmm batch");
  options.add_options("hidden")("jobs", "", value());
  options.add_options("Jobs, unless their line says otherwise")                                              //
      ("backend", "auto = each job where it ends first, cuda, cpu", value(), "BACKEND")                      //
      ("kernel", "multiply kernel, as spmm --help lists them", value(), "NAME")                              //
      ("verify", "before an output appears: recompute N blocks; full = prove all of it", value(), "full|N")  //
      ("on-saturation", "if elements reach 4294967295: report = say how many, error = the job fails", value(),
       "report|error")                                                            //
      ("transpose-a", "multiply by the transposes of all A")                      //
      ("transpose-b", "the same of B")                                            //
      ("durable", "wait until each output would survive a power cut")             //
      ("no-clobber", "refuse to replace existing outputs")                        //
      ("timeout", "a job that takes longer fails (30, 5m, 2h)", value(), "TIME")  //
      ("retries", "further attempts after a failure that may pass, alone in a worker (default: 1)", value(), "N");
  options.add_options("Machine")                                                                            //
      ("gpus", "auto = all that are visible, none, or numbers with commas between", value(), "GPUS")        //
      ("threads", "host threads of all jobs together; 0 = every core", value(), "N")                        //
      ("memory-limit", "host memory of all jobs together; default: most of what is free", value(), "SIZE")  //
      ("in-flight", "jobs at once in a worker; default: by their size", value(), "N");
  options.add_options("Course of the list")                                                            //
      ("grace", "on a signal: time for running jobs (default: 20)", value(), "TIME")                   //
      ("shard", "part I of N of the list, auto = by the cluster's variables, auto/N", value(), "I/N")  //
      ("journal", "folder of the journal", value(), "DIR")                                             //
      ("no-journal", "keep none")                                                                      //
      ("resume", "skip what the journal says is done, or failed")                                      //
      ("retry-failed", "as --resume, but run what failed again")                                       //
      ("dry-run", "print the jobs that would run");
  options.add_options("Messages")                                                                   //
      ("report", "JSON with every job; - = standard output", value(), "FILE")                       //
      ("progress", "line on standard error: auto = on a terminal, always, never", value(), "WHEN")  //
      ("q,quiet", "print failures only");
  cli::add_common_options(options, "Messages");
  options.parse_positional({"jobs"});
  return options;
}

std::string wanted_kernel(const cli::ParsedOptions& parsed) {
  std::vector<std::string> names = {"auto"};
  for (const KernelInfo& kernel : kernel_names()) names.push_back(kernel.name);
  return names[cli::option_choice(parsed, "kernel", names)];
}

double seconds_option(const cli::ParsedOptions& parsed, const std::string& option, double otherwise) {
  const auto given = cli::option_text(parsed, option);
  return given ? parse_seconds(given->value, given->where) : otherwise;
}

JobOptions job_defaults(const cli::ParsedOptions& parsed) {
  JobOptions defaults;
  defaults.backend = cli::backend_option(parsed);
  defaults.kernel = wanted_kernel(parsed);
  if (const auto verify = cli::option_text(parsed, "verify")) {
    defaults.verify_blocks = cli::parse_verify(verify->value, verify->where);
  }
  defaults.transpose_a = cli::option_flag(parsed, "transpose-a");
  defaults.transpose_b = cli::option_flag(parsed, "transpose-b");
  defaults.durable = cli::option_flag(parsed, "durable");
  defaults.no_clobber = cli::option_flag(parsed, "no-clobber");
  constexpr std::array kOnSaturation = {OnSaturation::report, OnSaturation::error};
  defaults.on_saturation = kOnSaturation[cli::option_choice(parsed, "on-saturation", {"report", "error"})];
  defaults.timeout_s = seconds_option(parsed, "timeout", 0);
  defaults.retries = cli::option_count(parsed, "retries", 0, kMaxRetries).value_or(defaults.retries);
  for (const KernelInfo& kernel : kernel_names()) {
    if (kernel.name != defaults.kernel || defaults.backend == Backend::automatic) continue;
    if (kernel.backend == defaults.backend) continue;
    throw UsageError("--kernel",
                     text(kernel.name, " belongs to backend ", backend_name(kernel.backend), ", not ",
                          backend_name(defaults.backend)),
                     "leave --backend or --kernel out");
  }
  return defaults;
}

void set_journal(BatchOptions& options, const cli::ParsedOptions& parsed) {
  const auto given = cli::option_text(parsed, "journal");
  const bool none = cli::option_flag(parsed, "no-journal");
  if (given && none) throw UsageError("--no-journal", "is given together with --journal", "leave one of them out");
  if (given && given->value.empty()) throw UsageError(given->where, "the folder's name is empty", "name a folder");
  if (given) options.journal = given->value;
  if (!given && !none && options.list != "-") options.journal = options.list + ".journal";
  options.retry_failed = cli::option_flag(parsed, "retry-failed");
  options.resume = cli::option_flag(parsed, "resume") || options.retry_failed;
  if (options.resume && !options.journal) {
    throw UsageError(options.retry_failed ? "--retry-failed" : "--resume", "there is no journal to look at",
                     "name its folder with --journal");
  }
}

void set_places(BatchOptions& options, const cli::ParsedOptions& parsed, const Variables& variables) {
  options.list = cli::required_positional(parsed, "jobs", "list of jobs", cli::Dash::allowed);
  if (const auto shard = cli::option_text(parsed, "shard")) {
    if (options.list == "-") {
      throw UsageError(shard->where, "standard input has no shards", "give the list as a file to every task");
    }
    options.shard = parse_shard(shard->value, shard->where, variables);
  }
  set_journal(options, parsed);
  if (const auto report = cli::option_text(parsed, "report")) {
    if (report->value.empty()) throw UsageError(report->where, "the file name is empty", "name a file");
    options.report = file_of_shard(report->value, options.shard);
  }
}

void set_machine(BatchOptions& options, const cli::ParsedOptions& parsed) {
  if (const auto gpus = cli::option_text(parsed, "gpus")) options.gpus = gpus->value;
  options.num_threads = static_cast<unsigned>(cli::option_count(parsed, "threads", 0, kMaxThreads).value_or(0));
  options.max_in_flight = static_cast<unsigned>(cli::option_count(parsed, "in-flight", 1, kMaxInFlight).value_or(0));
  const auto memory = cli::option_bytes(parsed, "memory-limit");
  if (memory == std::uint64_t{0}) throw UsageError("--memory-limit", "is 0 bytes", "give a limit such as 8G");
  options.memory_limit_bytes = memory.value_or(0);
  if (options.defaults.backend == Backend::cuda && options.gpus == "none") {
    throw UsageError("--gpus", "none contradicts --backend cuda", "leave one of them out");
  }
}

}  // namespace

BatchOptions parse_batch_options(int argc, const char* const* argv, const Variables& variables) {
  cli::OptionTable description = make_options();
  const auto parsed = cli::parse_strictly(description, argc, argv);
  BatchOptions options;
  options.command = {argv, argv + argc};
  options.answer = cli::requested_text(parsed, description, kNotes);
  if (options.answer) return options;
  options.defaults = job_defaults(parsed);
  set_places(options, parsed, variables);
  set_machine(options, parsed);
  options.grace_s = seconds_option(parsed, "grace", options.grace_s);
  options.dry_run = cli::option_flag(parsed, "dry-run");
  options.quiet = cli::option_flag(parsed, "quiet");
  constexpr std::array kModes = {cli::ProgressMode::automatic, cli::ProgressMode::always, cli::ProgressMode::never};
  options.progress = kModes[cli::option_choice(parsed, "progress", {"auto", "always", "never"})];
  return options;
}

}  // namespace spmm::batch
