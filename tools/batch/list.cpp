// Parses the command line and lists of jobs.
#include "tools/batch/batch.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <filesystem>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "tools/spmm/command_line.hpp"

namespace spmm::batch {
namespace {

constexpr std::size_t kMaxLine = 16384;  // three paths and options
constexpr std::size_t kNumPaths = 3;

std::string in_quotes(std::string_view value) {
  return "\"" + std::string(value) + "\"";
}

std::string path_of(std::string_view column, const std::string& what, const std::string& where,
                    const ListPlace& place) {
  if (column.empty()) throw FormatError(where, what + " is empty", "write its path, with one tab between columns");
  std::string path = absolute_path(column, place.folder);
  if (path.size() < PATH_MAX) return path;
  throw FormatError(where, text(what, " has ", path.size(), " characters"), "shorten the path");
}

void apply_column(Job& job, std::string_view column, const std::string& where, const ListPlace& place) {
  const std::size_t equals = column.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw FormatError(where, "column " + in_quotes(column) + " is not key=value",
                      "write three paths and then key=value, with one tab between");
  }
  const std::string key(column.substr(0, equals));
  const std::string value(column.substr(equals + 1));
  if (key == "timeout") {
    job.timeout_s = parse_seconds(value, where + " timeout");
    return;
  }
  if (key == "pattern") {
    job.product.pattern = path_of(value, key, where, place);
    return;
  }
  if (cli::set_product_option(job.product, key, value, where + ' ' + key)) return;
  throw FormatError(
      where, "key " + in_quotes(key) + " is not known",
      "give backend, kernel, verify, on-saturation, transpose-a, transpose-b, rows, triangle, no-diagonal, "
      "at-least, keep, pattern, durable, no-clobber or timeout");
}

}  // namespace

void Problems::add(int code, const std::string& message) {
  if (count++ == 0) exit_code = code;
  if (messages.size() < kMaxShown) messages.push_back(message);
}

void settle_backend(Job& job, const std::string& where) {
  if (job.product.kernel == "auto") return;
  for (const KernelInfo& kernel : kernel_names()) {
    if (kernel.name != job.product.kernel || kernel.backend == job.product.backend) continue;
    if (job.product.backend != Backend::automatic) {
      throw UsageError(where,
                       text("kernel ", kernel.name, " belongs to backend ", backend_name(kernel.backend), ", not ",
                            backend_name(job.product.backend)),
                       "leave one of them out");
    }
    job.product.backend = kernel.backend;
    return;
  }
}

std::optional<Job> parse_job_line(std::string_view line, std::uint64_t number, const ListPlace& place,
                                  const Job& defaults) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos || line[first] == '#') return std::nullopt;
  const std::string where = text(place.name, ":", number);
  if (line.size() > kMaxLine) {
    throw FormatError(where, text("has ", line.size(), " characters, expected at most ", kMaxLine),
                      "shorten the paths");
  }
  if (line.find('\0') != std::string_view::npos) {
    throw FormatError(where, "holds a zero byte", "a list is text: A, B and OUT, one job a line");
  }
  std::vector<std::string_view> columns;
  for (std::size_t at = 0, tab = 0; tab != std::string_view::npos; at = tab + 1) {
    tab = line.find('\t', at);
    columns.push_back(line.substr(at, tab - at));
  }
  if (columns.size() < kNumPaths) {
    throw FormatError(
        where, text("has ", columns.size(), columns.size() == 1 ? " column" : " columns", ", expected A, B and OUT"),
        "put one tab between the paths");
  }
  Job job = defaults;
  job.line = number;
  job.a = path_of(columns[0], "A", where, place);
  job.b = path_of(columns[1], "B", where, place);
  job.out = path_of(columns[2], "OUT", where, place);
  try {
    io::reject_foreign_ending(job.out);
  } catch (const UsageError& e) {
    throw FormatError(where, text(e.where(), ' ', e.problem()), std::string(e.hint()));
  }
  const auto key_of = [](std::string_view column) { return column.substr(0, column.find('=')); };
  for (std::size_t c = kNumPaths; c < columns.size(); ++c) {
    for (std::size_t before = kNumPaths; before < c; ++before) {
      if (key_of(columns[before]) != key_of(columns[c])) continue;
      throw FormatError(where, "key " + in_quotes(key_of(columns[c])) + " is given twice", "leave one of them out");
    }
    apply_column(job, columns[c], where, place);
  }
  settle_backend(job, where);
  return job;
}

std::vector<Job> parse_job_list(std::string_view text, const ListPlace& place, const Job& defaults,
                                Problems& problems) {
  std::vector<Job> jobs;
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    try {
      if (auto job = parse_job_line(line, number, place, defaults)) jobs.push_back(std::move(*job));
    } catch (const Error& e) {
      problems.add(cli::kBadData, e.what());
    }
  }
  return jobs;
}

std::string job_line(const Job& job) {
  const ProductOptions& product = job.product;
  std::string line = text(job.a, '\t', job.b, '\t', job.out);
  if (product.transpose_a) line += "\ttranspose-a=1";
  if (product.transpose_b) line += "\ttranspose-b=1";
  if (product.rows != RowRange{}) line += "\trows=" + rows_text(product.rows);
  const Selection& kept = product.selection;
  if (kept.upper_triangle) line += "\ttriangle=upper";
  if (kept.no_diagonal) line += "\tno-diagonal=1";
  if (kept.at_least != 0) line += text("\tat-least=", kept.at_least);
  if (kept.keep != 0) line += text("\tkeep=", kept.keep);
  if (!product.pattern.empty()) line += text("\tpattern=", product.pattern.string());
  if (product.verify_full) line += "\tverify=full";
  if (product.verify_blocks != 0) line += text("\tverify=", product.verify_blocks);
  if (product.on_saturation == OnSaturation::error) line += "\ton-saturation=error";
  if (product.durable) line += "\tdurable=1";
  return line;
}

std::string rows_text(RowRange rows) {
  return text(rows.first, ':', rows.end == RowRange{}.end ? "" : text(rows.end));
}

std::string absolute_path(std::string_view path, const std::string& folder) {
  namespace fs = std::filesystem;
  std::string joined(path);
  if (!path.starts_with('/')) {
    std::error_code error;
    joined = text(folder.empty() ? fs::current_path(error).string() : folder, "/", path);
    if (error) {
      throw InputError("working folder", text("is not there any more (", error.message(), ")"),
                       "change to a folder that is there (cd)");
    }
  }
  const bool is_plain = joined.find("//") == std::string::npos && joined.find("/.") == std::string::npos;
  return is_plain ? joined : fs::path(joined).lexically_normal().string();
}

double parse_seconds(const std::string& text, const std::string& where) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
      {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}};
  const auto* const found = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& u) { return u.first == unit; });
  if (error != std::errc{} || found == kUnits.end() || !(value >= 0 && value <= 1e9)) {
    throw UsageError(where, in_quotes(text) + " is not a time", "write it like 30, 1.5s, 5m, 2h or 1d");
  }
  return value * found->second;
}

// ---- the command line

namespace {

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
(FIRST:END, as spmm --rows), triangle, no-diagonal, at-least, keep (as of spmm), pattern (FILE, as spmm --pattern),
durable, no-clobber, timeout. Empty lines and lines that start with # are skipped.
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

Variables, if the option is not given: SPMM_BACKEND, SPMM_THREADS, SPMM_MEMORY_LIMIT.
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
      ("transpose-b", "multiply by the transposes of all B")           //
      ("durable", "wait until each output would survive a power cut")  //
      ("no-clobber", "refuse to replace existing outputs")             //
      ("timeout", "a job that takes longer fails (30, 5m, 2h)", value(), "TIME");
  cli::add_selection_options(options, "Jobs, unless their line says otherwise");
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
  cli::set_product_options(defaults.product, parsed);
  if (const auto given = cli::option_text(parsed, "timeout"))
    defaults.timeout_s = parse_seconds(given->value, given->where);
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
  const auto parsed = description.parse(argc, argv);
  BatchOptions options;
  options.command = {argv, argv + argc};
  options.answer = cli::requested_text(parsed, description, kNotes);
  if (options.answer) return options;
  options.defaults = job_defaults(parsed);

  options.list = cli::required_positional(parsed, "jobs", "list of jobs", cli::Dash::allowed);
  if (const auto shard = cli::option_text(parsed, "shard")) options.shard = parse_shard(shard->value, shard->where);
  if (const auto report = cli::file_option(parsed, "report")) {
    options.report = file_of_shard(report->value, options.shard);
  }
  if (const auto log = cli::file_option(parsed, "log")) options.log = log->value;
  if (options.log.empty() && options.list != "-") options.log = options.list + ".log";
  options.resume = cli::option_flag(parsed, "resume");
  if (options.resume && options.log.empty()) {
    throw UsageError("--resume", "standard input has no log", "name one with --log");
  }

  options.num_threads = cli::threads_option(parsed);
  options.max_in_flight = static_cast<unsigned>(cli::option_count(parsed, "in-flight", 1, kMaxInFlight).value_or(0));
  options.memory_limit_bytes = cli::memory_limit_option(parsed);
  if (const auto grace = cli::option_text(parsed, "grace")) options.grace_s = parse_seconds(grace->value, grace->where);
  options.dry_run = cli::option_flag(parsed, "dry-run");
  options.quiet = cli::option_flag(parsed, "quiet");
  options.progress = cli::progress_option(parsed);
  return options;
}

}  // namespace spmm::batch
