// spmm-batch: many products, from a list.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/machine_memory.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "io/files/paths.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "tools/batch/batch.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;

constexpr std::uint64_t kSparePercent = 10;  // of free memory is left to others if no limit was given

/// CUDA_VISIBLE_DEVICES of each GPU worker. Errors: DeviceError (all jobs need a GPU and the machine has none).
std::vector<std::string> gpus_for(Backend backend) {
  std::vector<std::string> gpus;
  if (backend != Backend::cpu && has_backend(Backend::cuda)) gpus = visible_gpus();
  if (backend != Backend::cuda || !gpus.empty()) return gpus;
  throw DeviceError("--backend cuda", "no GPU was found",
                    "leave --backend out, or check nvidia-smi and CUDA_VISIBLE_DEVICES");
}

/// Errors: InputError (cannot be opened), FormatError (empty: what should write it has failed), IoError.
std::string read_list(const std::string& path, const std::string& name) {
  const auto open = [&] { return path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC); };
  const io::Descriptor file(io::retried(open));
  if (!file.is_open()) {
    throw InputError(name, text("cannot be opened (", io::error_text(errno), ")"), "check the path of the list");
  }
  std::string list;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = io::retried([&] { return ::read(file.get(), buffer.data(), buffer.size()); });
    if (got == 0) break;
    if (got < 0 && errno == EISDIR) throw InputError(name, "is a directory, expected a list of jobs", "name a file");
    if (got < 0) throw IoError(name, io::error_text(errno), "check where it comes from, then run again");
    list.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (list.empty()) throw FormatError(name, "is empty, expected a list of jobs", "check what writes it");
  return list;
}

/// Prints what is wrong with the list. Errors: FormatError, InputError or OutputError if anything is.
void refuse(const std::string& name, const Problems& problems) {
  if (problems.count == 0) return;
  for (const std::string& message : problems.messages) {
    std::cerr << text("spmm-batch: error: ", printable(message), "\n");
  }
  const std::string problem =
      text("has ", problems.count, problems.count == 1 ? " problem" : " problems", ", nothing was run");
  const std::string remedy = "repair the list, or take these lines out";
  if (problems.exit_code == cli::kNoInput) throw InputError(name, problem, remedy);
  if (problems.exit_code == cli::kCannotCreate) throw OutputError(name, problem, remedy);
  throw FormatError(name, problem, remedy);
}

/// The jobs of the shard. Errors: FormatError, InputError, OutputError (the list is wrong, its problems are printed).
std::vector<Job> checked_jobs(const BatchOptions& options, const std::string& log) {
  const std::filesystem::path list = absolute_path(options.list);  // of "-": a name in the working folder
  const ListPlace place{.name = options.list_name(), .folder = list.parent_path().string()};
  Problems problems;
  std::vector<Job> jobs = parse_job_list(read_list(options.list, place.name), place, options.defaults, problems);
  refuse(place.name, problems);
  OwnFiles own = {{"--report", options.report}, {"--log", log}};
  if (options.list != "-") own.insert(own.begin(), {"the list", options.list});
  check_list(jobs, options.shard, place.name, own, problems);
  refuse(place.name, problems);
  std::vector<Job> mine;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (options.shard.has(j)) mine.push_back(std::move(jobs[j]));
  }
  return mine;
}

void print_jobs(const std::vector<Job>& jobs, const std::vector<JobRun>& runs) {
  // A file or a pipe gets the names as they are: the lines are jobs.
  const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  std::string lines;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (runs[j].state != JobState::waiting) continue;
    lines += (is_terminal ? printable(job_line(jobs[j])) : job_line(jobs[j])) + '\n';
  }
  cli::print_answer(lines);
}

int run(int argc, char** argv) {
  const BatchOptions options = parse_batch_options(argc, argv);
  if (options.answer) {
    cli::print_answer(*options.answer);
    return cli::kOk;
  }
  const std::string own_log = file_of_shard(options.log, options.shard);
  const std::vector<Job> jobs = checked_jobs(options, own_log);
  const std::vector<std::string> gpus = gpus_for(options.defaults.product.backend);
  if (!options.report.empty() && options.report != "-") io::find_target(options.report, false);  // not after the work
  std::optional<Log> log;
  if (!options.dry_run && !own_log.empty()) log.emplace(own_log);
  std::vector<JobRun> runs(jobs.size());
  const DoneLines lines = options.resume ? read_logs(options.log) : DoneLines{};
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (is_done(lines, jobs[j])) runs[j].state = JobState::done_before;
  }
  if (options.dry_run) {
    print_jobs(jobs, runs);
    return cli::kOk;
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  const std::uint64_t memory = options.memory_limit_bytes != 0 ? options.memory_limit_bytes
                                                               : available_memory_bytes() / 100 * (100 - kSparePercent);
  const unsigned cores = options.num_threads != 0 ? options.num_threads : usable_cores();
  BatchOutput output(options, runs);
  const auto workers = plan_workers(jobs, gpus, cores, memory, options.max_in_flight);
  const int code = supervise(jobs, runs, workers, options, log ? &*log : nullptr, output);
  output.finish(jobs, runs, code);
  return code;
}

}  // namespace

int spmm::tools::batch_main(int argc, char** argv) {
  return cli::run_program("spmm-batch", [&] { return run(argc, argv); });
}
