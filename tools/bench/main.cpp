// spmm-bench: times kernels on named cases, with their outputs compared; compares two such measurements.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "io/files/paths.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "tools/bench/bench.hpp"
#include "tools/common/options.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaxRuns = 10'000;

constexpr const char* kNotes = R"(
Examples:
  spmm-bench --list
  spmm-bench --suite P --backend cpu --json before.json
  spmm-bench --case S1,S3 --kernel auto,two-pointer --work /scratch/bench
  spmm-bench --suite patterns --kernel all --max-seconds 20 --json patterns.json
  spmm-bench --diff before.json after.json --tolerance 1.05

For each case both inputs are made as spmm-gen makes them (A with seed 1, B with seed 2) and left in the work folder for
the next time. Each kernel runs once for a checksum of its result, which must be that of a kernel that shares no code with
the first one, then --runs times to /dev/null with the clock running. A kernel that cannot run (memory, device, backend)
is listed as refused. With --max-seconds one whose run takes longer is stopped and listed as skipped, and no other run
begins once those of a kernel have taken so long together. The kernel "all" is auto and every kernel of the backend but
reference and host-driven, which run only by name. Within the memory limit of a case results go to the work folder.

Columns: median (least-largest) of the runs. device = stages build, count, plan, multiply and compact. Each run
uploads its inputs anew: device caches are cold. tools/scripts/process_times.py times whole processes.

--json writes a complete measurement: command, revision, date, machine, and per case and kernel the median, least and
largest time of every stage and of whole products.

Exit codes: 0 all outputs the same (--diff: nothing slower), 1 an output differs (--diff: something got slower than
--tolerance and beyond the spread of both, or broke), 2 usage, 65 malformed file, 66 no such file, 69 no kernel could
run, 71 memory, 73 cannot create a file, 74 reading or writing failed, 75 interrupted.
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-bench", "Times kernels on named cases, checked, as a table and JSON.\n");
  options.usage("[options] | --diff OLD.json NEW.json", "spmm bench");
  options.add_options("hidden")("old", "", value())("new", "", value());
  options.add_options("Cases")                                                                                  //
      ("suites", "file of the suites (default: data/suites.json, here or above the program)", value(), "FILE")  //
      ("suite", "suites, with commas between", value(), "NAMES")                                                //
      ("case", "cases, with commas between", value(), "NAMES")                                                  //
      ("list", "list suites and cases")                                                                         //
      ("work", "folder for inputs and outputs (default: a temporary one)", value(), "DIR");
  options.add_options("Runs")                                                                                   //
      ("kernel", "kernels, with commas between; all = see below", value("auto"), "NAMES")                       //
      ("backend", "auto, cuda or cpu", value("auto"), "BACKEND")                                                //
      ("device", "CUDA device (default: automatic)", value(), "N")                                              //
      ("devices", "CUDA devices that share each product: all, or numbers with commas between", value(), "N,N")  //
      ("threads", "host threads (default: all cores)", value(), "T")                                            //
      ("runs", "timed runs", value("5"), "N")                                                                   //
      ("max-seconds", "longest run, and time for the runs of a kernel on a case", value(), "S");
  options.add_options("Other work")         //
      ("diff", "compare two measurements")  //
      ("tolerance", "--diff: what counts as slower", value("1.1"), "RATIO");
  options.add_options("Messages")  //
      ("json", "write the measurement as JSON; - = standard output, without the table", value(), "FILE");
  cli::add_common_options(options, "Messages");
  options.parse_positional({"old", "new"});
  return options;
}

/// Where the suites are: as asked for by --suites, else below the working folder, else below the root of the build's
/// tree. Errors: UsageError.
fs::path suites_path(const cli::ParsedOptions& parsed) {
  if (const auto given = cli::option_text(parsed, "suites")) return given->value;
  fs::path usual = fs::path("data") / "suites.json";
  if (fs::exists(usual)) return usual;
  std::error_code ignored;
  fs::path above = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path().parent_path() / usual;
  if (fs::exists(above)) return above;
  throw UsageError("--suites", "data/suites.json is neither here nor above the program", "name the file with --suites");
}

/// The folder for inputs and outputs; a temporary one is removed with everything in it. Errors: OutputError.
class WorkFolder {
 public:
  explicit WorkFolder(const std::optional<cli::OptionText>& given) : temporary_(!given) {
    std::error_code failed;
    if (given) {
      path_ = given->value;
      fs::create_directories(path_, failed);
    } else {  // in a folder that others may write to: of a new name, for this user alone
      std::string name = (fs::temp_directory_path() / "spmm-bench-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) failed.assign(errno, std::generic_category());
      path_ = name;
    }
    if (failed) throw OutputError(path_.string(), failed.message(), "name a folder that can be made with --work");
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (temporary_) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool temporary_;
};

/// The kernels as typed; "all" stands for auto and every kernel of the backend but the slow reference and host-driven.
/// Errors: UsageError: a misspelt one is a mistake, not a refusal.
std::vector<std::string> kernels_of(const std::vector<std::string>& typed, Backend backend) {
  if (backend == Backend::automatic) backend = has_cuda_device() ? Backend::cuda : Backend::cpu;
  std::vector<std::string> known = {"all", "auto"};
  for (const KernelInfo& kernel : kernel_names()) known.push_back(kernel.name);
  std::vector<std::string> names;
  for (const std::string& name : typed) {
    const bool is_all = cli::parse_choice(name, "--kernel", known) == 0;
    names.push_back(is_all ? "auto" : name);
    if (!is_all) continue;
    for (const KernelInfo& kernel : kernel_names()) {
      const bool is_slow = kernel.name == "reference" || kernel.name == "host-driven";
      if (kernel.backend == backend && !is_slow) names.push_back(kernel.name);
    }
  }
  return names;
}

int run_diff(const cli::ParsedOptions& parsed) {
  const double tolerance = *tools::option_number(parsed, "tolerance", 1);
  const auto before = tools::read_json(cli::required_positional(parsed, "old", "old measurement"));
  const auto after = tools::read_json(cli::required_positional(parsed, "new", "new measurement"));
  const tools::Diff diff = tools::diff_results(before, after, tolerance);
  std::cout << diff.table;
  return diff.worse ? cli::kNegative : cli::kOk;
}

tools::BenchOptions bench_options(const cli::ParsedOptions& parsed) {
  tools::BenchOptions options;
  options.multiply.backend = cli::backend_option(parsed);
  options.multiply.num_threads = cli::threads_option(parsed);
  options.multiply.device = cli::device_option(parsed);
  options.multiply.devices = cli::devices_option(parsed);
  options.multiply.cancel = &cli::cancel_flag();
  options.num_runs = static_cast<unsigned>(*cli::option_count(parsed, "runs", 1, kMaxRuns));
  options.max_s = tools::option_number(parsed, "max-seconds", 0);
  options.kernels = kernels_of(tools::option_list(parsed, "kernel"), options.multiply.backend);
  return options;
}

/// Runs the cases; the JSON file is complete up to the last finished case at any time.
int run_cases(const std::vector<tools::BenchCase>& cases, const tools::BenchOptions& options,
              const std::vector<std::string>& command, const std::optional<cli::OptionText>& json_file) {
  const bool with_table = !json_file || json_file->value != "-";
  auto json = tools::bench_json(options, command);
  bool any_ran = false;
  bool all_same = true;
  if (with_table) std::cout << tools::table_header() << std::flush;
  for (const tools::BenchCase& one : cases) {
    const auto result = run_case(one, options, [&](const tools::CaseResult& so_far, const tools::KernelResult& kernel) {
      if (with_table) std::cout << tools::table_row(so_far, kernel) << std::flush;
      if (!kernel.ran()) return;
      if (!any_ran) json["device"] = kernel.runs.front().device;
      any_ran = true;
      all_same = all_same && kernel.validated();
    });
    json["cases"].push_back(tools::case_result_json(result));
    if (json_file && with_table) tools::write_json(json_file->value, json);
  }
  if (!with_table) tools::write_json("-", json);
  if (!any_ran) throw DeviceError("spmm-bench", "no kernel could run", "see the reasons in the table");
  return all_same ? cli::kOk : cli::kNegative;
}

int run(const cli::ParsedOptions& parsed, const std::vector<std::string>& command) {
  if (cli::option_flag(parsed, "diff")) return run_diff(parsed);
  if (parsed.count("old") > 0) {
    throw UsageError("command line", "unexpected argument \"" + parsed.text("old") + "\"",
                     "files belong to --diff; see spmm-bench --help");
  }
  const fs::path suites_file = suites_path(parsed);
  const auto suites = tools::load_suites(suites_file);
  if (cli::option_flag(parsed, "list")) {
    cli::print_answer(tools::suites_text(suites));
    return cli::kOk;
  }
  const auto cases =
      tools::select_cases(suites, tools::option_list(parsed, "suite"), tools::option_list(parsed, "case"));
  if (cases.empty()) throw UsageError("command line", "no case is named", "give --suite or --case; --list shows them");
  tools::BenchOptions options = bench_options(parsed);
  const WorkFolder work(cli::option_text(parsed, "work"));
  options.work = work.path();
  const auto json_file = cli::option_text(parsed, "json");
  if (json_file && json_file->value != "-") {  // before hours of work
    check_output_is_no_input(suites_file, json_file->value);
    io::find_target(json_file->value, false);
  }
  return run_cases(cases, options, command, json_file);
}

}  // namespace

int spmm::tools::bench_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-bench", .options = make_options, .notes = kNotes}, argc, argv,
                          [&](const cli::ParsedOptions& parsed) {
                            return run(parsed, {argv, argv + argc});
                          });
}
