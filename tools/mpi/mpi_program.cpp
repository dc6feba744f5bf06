// spmm-mpi A B OUT: one product by all ranks of an MPI run.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <new>
#include <string_view>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/launcher.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "cli/run_length.hpp"
#include "io/files/paths.hpp"
#include "mpi/product.hpp"
#include "report/json.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "tools/mpi/mpi_program.hpp"
#include "tools/spmm/command_line.hpp"

namespace {

using namespace spmm;

constexpr const char* kProgram = "spmm-mpi";

mpi::RankFailure failure_of_rank() {
  const cli::Failure failure = cli::failure_of_current_exception();
  return {.code = failure.exit_code, .message = failure.message};
}

std::string notes() {
  return R"(
Start it with as many ranks as there are GPUs, or one for each part of the cores:
  mpirun -n 8 spmm-mpi a.bin b.bin c.bin
  mpirun -n 4 --map-by slot:PE=8 spmm-mpi a.bin b.bin c.bin      four ranks with eight cores each
  mpirun -n 1 --bind-to none spmm-mpi a.bin b.bin c.bin          one rank, all cores
All nodes must see the three paths. --threads, --memory-limit, --verify, --backend, --kernel and --device are of each
rank; --plan, --progress, --trace and --devices are options of spmm alone.
Kernels, environment and exit codes are those of spmm --help.
)";
}

void refuse_options(const cli::CliOptions& options) {
  if (options.plan)
    throw UsageError("--plan", "is no option of spmm-mpi", "spmm --plan shows what one process would do");
  if (options.progress == cli::ProgressMode::always) {
    throw UsageError("--progress", "is no option of spmm-mpi", "leave it out; -v shows what each rank did at the end");
  }
}

cli::CliOptions options_of(const mpi::Communicator& ranks, int argc, char** argv) {
  cli::CliOptions options = cli::parse_options(argc, argv, kProgram, notes);
  if (options.answer) return options;
  refuse_options(options);
  if (!ranks.serves_threads()) {
    throw DeviceError("MPI", "serves calls of one thread only, expected MPI_THREAD_SERIALIZED",
                      "use an MPI library that was built with support for threads");
  }
  const std::string complaint = cli::launcher_complaint(ranks.size());
  if (!complaint.empty()) {
    throw UsageError("launcher", complaint,
                     "start it with the mpirun of the MPI it was built with, or with srun --mpi=pmix");
  }
  if (!options.report.empty() && options.report != "-") io::find_target(options.report, false);
  options.run.cancel = &cli::cancel_flag();
  return options;
}

/// What the report of several ranks has in addition to that of one process.
void add_ranks(cli::JsonWriter& json, const mpi::DistributedReport& report) {
  json.open("ranks", '[');
  for (const mpi::RankReport& rank : report.ranks) {
    const mpi::RankReport::Numbers& did = rank.numbers;
    json.open("", '{')
        .add("host", rank.host)
        .add("backend", rank.backend)
        .add("kernel", rank.kernel)
        .add("device", rank.device)
        .open("rows", '{')
        .add("first", did.first_row)
        .add("end", did.end_row)
        .close('}')
        .add("pairs", did.pairs)
        .add("blocks", did.num_blocks)
        .add("count_s", did.count_s)
        .add("multiply_s", did.multiply_s)
        .add("wait_s", did.wait_s)
        .add("runs", did.num_runs)
        .add("peak_host_bytes", did.peak_host_bytes)
        .add("peak_device_bytes", did.peak_device_bytes)
        .close('}');
  }
  json.close(']');
}

void show_ranks(const mpi::DistributedReport& report) {
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const mpi::RankReport& rank = report.ranks[r];
    const mpi::RankReport::Numbers& did = rank.numbers;
    std::cerr << "rank " << r << " on " << rank.host << ": block rows " << did.first_row << ":" << did.end_row << ", "
              << did.pairs << " pairs, " << did.num_blocks << " blocks"
              << (rank.backend.empty() ? "" : ", " + rank.backend + " " + rank.kernel) << "; count " << did.count_s
              << " s, multiply " << did.multiply_s << " s, wait " << did.wait_s << " s; " << did.num_runs
              << (did.num_runs == 1 ? " run" : " runs") << ", peak " << human_bytes(did.peak_host_bytes) << "\n";
  }
}

void print_results(const cli::CliOptions& options, const mpi::DistributedReport& report, int num_ranks, int argc,
                   char** argv) {
  const cli::RunNames names{.a = options.a, .b = options.b, .out = options.out, .command = {argv, argv + argc}};
  if (options.verbose) show_ranks(report);
  if (!options.report.empty()) {
    const cli::ReportLayout layout{.add_own = [&](cli::JsonWriter& json) { add_ranks(json, report); }};
    cli::write_json_text(options.report, cli::report_json(report.whole, names, layout));
  }
  if (options.quiet) return;
  (options.report == "-" ? std::cerr : std::cout)
      << cli::summary_line(report.whole) << ", " << num_ranks << (num_ranks == 1 ? " rank" : " ranks") << std::endl;
}

/// Errors: AgreedFailure.
void run(const mpi::Communicator& ranks, int argc, char** argv) {
  const mpi::Stages stages(ranks, failure_of_rank);
  const bool is_first = ranks.rank() == 0;
  if (!is_first) cli::silence_warnings();
  cli::CliOptions options;
  stages.run([&] { options = options_of(ranks, argc, argv); });
  const auto other = mpi::difference(ranks, {options.answer ? "--help or --version" : "a product"});
  stages.run([&] {
    if (other) throw UsageError(kProgram, other->words, "give all ranks the same command line");
  });
  if (options.answer) {
    if (is_first) cli::print_answer(*options.answer);
    return;
  }
  const unsigned num_cores = ranks.cores_per_rank();
  stages.run([&] {
    if (!is_first) return;
    Options of_rank = options.run;
    if (of_rank.num_threads == 0) of_rank.num_threads = num_cores;
    cli::check_expectations(kProgram, options.a, options.b, options.out, of_rank, options.strict_space, ranks.size());
  });
  if (is_first && !options.quiet) {
    options.run.on_notice = [](const std::string& notice) { cli::note(kProgram, notice); };
  }
  mpi::DistributedReport report;
  if (ranks.size() == 1) {
    stages.run([&] { report.whole = mpi::multiply_alone(options.a, options.b, options.out, options.run); });
  } else {
    report = mpi::multiply(ranks, failure_of_rank, options.a, options.b, options.out, options.run);
  }
  stages.run([&] {
    if (is_first) print_results(options, report, ranks.size(), argc, argv);
  });
}

/// In one piece: the launcher mixes what arrives in several with its own words.
void print_error(const std::string& message) {
  std::cerr << text(kProgram, ": error: ", printable(message), "\n") << std::flush;
}

/// All ranks have agreed to end with this code. A plain exit would do under mpirun, but srun would call it a kill.
[[noreturn]] void end_all(const mpi::Communicator& ranks, int code) {
  if (ranks.size() == 1) ::_exit(code);
  // Rank 0 has told what happened. The launcher ends the ranks by SIGTERM, perhaps rank 0, too: no other message.
  signal(SIGALRM, SIG_IGN);
  signal(SIGTERM, ranks.rank() == 0 ? SIG_IGN : SIG_DFL);
  ranks.barrier();
  if (ranks.rank() == 0) ranks.abort(code);
  ::sleep(5);
  ::_exit(code);
}

}  // namespace

int spmm::mpi::run_program(int argc, char** argv) {
  cli::open_standard_streams();
  cli::install_signal_handlers();
  const mpi::Communicator ranks;
  try {
    run(ranks, argc, argv);
  } catch (const mpi::AgreedFailure& failure) {
    if (ranks.rank() == 0) print_error(failure.what());
    end_all(ranks, failure.code());
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kMessage = "spmm-mpi: error: out of memory; lower --memory-limit, or free memory\n";
    [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    ranks.abort(cli::kMemory);
  } catch (...) {  // this rank's alone: the others are still at work
    const cli::Failure failure = cli::failure_of_current_exception();
    print_error(failure.message);
    ranks.abort(failure.exit_code);
  }
  return cli::kOk;
}
