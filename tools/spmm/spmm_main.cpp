// spmm A B OUT: the command; and its subcommands.
#include <functional>
#include <iostream>
#include <memory>

#include "base/visible_gpus.hpp"
#include "cli/exit_codes.hpp"
#include "cli/launcher.hpp"
#include "cli/program.hpp"
#include "cli/progress_bar.hpp"
#include "cli/run_length.hpp"
#include "cli/used_gpus.hpp"
#include "io/files/paths.hpp"
#include "report/json.hpp"
#include "report/text.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "tools/spmm/command_line.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

int show_plan(const cli::CliOptions& options, const cli::RunNames& names) {
  const Plan plan = plan_multiply(options.a, options.b, options.run);
  const MatrixHeader a = read_header(options.a);
  const MatrixHeader b = read_header(options.b);
  if (options.report != "-") cli::print_answer(cli::plan_text(a, b, plan));
  if (!options.report.empty()) cli::write_json_text(options.report, cli::plan_json(a, b, plan, names));
  return cli::kOk;
}

/// Writes what belongs to a finished product. Errors: OutputError, IoError; both report that the product is there.
void write_after_product(const std::string& what, const std::function<void()>& write) {
  constexpr const char* kComplete = "the product is complete";
  try {
    write();
  } catch (const OutputError& error) {
    throw OutputError(what, error.what(), kComplete);
  } catch (const IoError& error) {
    throw IoError(what, error.what(), kComplete);
  }
}

int multiply_files(cli::CliOptions& options, const cli::RunNames& names) {
  // Reports what would make these files fail before the work, not after it.
  if (!options.report.empty() && options.report != "-") io::find_target(options.report, false);
  if (!options.trace.empty()) io::find_target(options.trace, false);
  Trace trace;
  if (!options.trace.empty()) options.run.trace = &trace;
  cli::check_expectations("spmm", options.a, options.b, options.out, options.run, options.strict_space);
  Report report;
  {
    auto engine = std::make_unique<Engine>(options.run);
    if (options.verbose) {
      const Plan plan = engine->plan(options.a, options.b, options.run);
      std::cerr << cli::plan_text(read_header(options.a), read_header(options.b), plan) << std::flush;
    }
    cli::ProgressBar bar(std::cerr);
    if (!options.quiet && cli::wants_progress(options.progress)) {
      options.run.on_progress = [&](Stage stage, std::uint64_t done, std::uint64_t total) {
        bar.update(stage, done, total);
      };
    }
    if (!options.quiet) {
      options.run.on_notice = [&](const std::string& notice) {
        bar.clear();
        cli::note("spmm", notice);
      };
    }
    report = engine->multiply(options.a, options.b, options.out, options.run);
    if (cli::ends_at_once()) static_cast<void>(engine.release());  // not taken apart piece by piece: see end_process()
  }
  if (options.verbose) std::cerr << cli::stage_table(report);
  if (!options.trace.empty()) {
    write_after_product("trace", [&] { cli::write_text(options.trace, cli::trace_json(trace, report)); });
  }
  if (!options.report.empty()) {
    write_after_product("report", [&] { cli::write_json_text(options.report, cli::report_json(report, names)); });
  }
  // A report on standard output is alone there.
  if (!options.quiet) (options.report == "-" ? std::cerr : std::cout) << cli::summary_line(report) << std::endl;
  return cli::kOk;
}

int run(int argc, char** argv) {
  cli::CliOptions options = cli::parse_options(argc, argv, "spmm", cli::spmm_notes, tools::subcommand_names());
  if (options.answer) {
    cli::print_answer(*options.answer);
    return cli::kOk;
  }
  const cli::RunNames names{.a = options.a, .b = options.b, .out = options.out, .command = {argv, argv + argc}};
  options.run.cancel = &cli::cancel_flag();
  if (options.run.backend == Backend::automatic && !options.quiet) {
    const std::string warning = cli::unused_gpus_warning(has_backend(Backend::cuda), visible_gpus().size());
    if (!warning.empty()) cli::warn("spmm", warning);
  }
  if (const std::string warning = cli::lone_process_warning(); !warning.empty() && !options.quiet && !options.plan) {
    cli::warn("spmm", warning);
  }
  cli::hide_unused_gpus({options.a, options.b, options.out}, options.run);
  return options.plan ? show_plan(options, names) : multiply_files(options, names);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto code = spmm::tools::run_subcommand(argc, argv)) return *code;
  spmm::cli::install_signal_handlers();
  spmm::cli::end_process(spmm::cli::run_program("spmm", [&] { return run(argc, argv); }));
}
