// spmm-cusparse: what cuSPARSE takes for the products of spmm-bench, as products of CSR matrices.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "io/files/paths.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/run.hpp"
#include "tools/bench/suites.hpp"
#include "tools/common/measurement.hpp"
#include "tools/cusparse/cusparse_cases.hpp"

namespace {

using namespace spmm;
namespace fs = std::filesystem;
using tools::Json;

constexpr const char* kNotes = R"(
Multiplies the same matrices as spmm-bench by cusparseSpGEMM: blocks become single elements in compressed rows (CSR), zeros
are left out. Results of doubles (f64) are exact below 2^53, those of floats (f32) are rounded above 2^24; neither
saturates. Both operands are on the device, sorted, before the clock runs, and memory is kept from run to run: the times
hold estimating, computing and copying the result out, not what spmm does to raw records. Work = the library's buffers.

A product runs once to warm up and --runs times between events. What the library refuses (memory, more than 2^31 - 1
elements) is told as text. Each case has a process of its own, which is ended where one product, or reading the operands,
takes longer than --max-seconds. Where a product has at most --check-products multiply-adds, all elements of C are
compared with spmm's on the CPU.

Examples:
  spmm-cusparse --case rmat-1e6-m1,stencil-27-m1 --json cusparse.json
  spmm-cusparse a.bin b.bin --kernel f64-alg2,f64-alg3 --chunk-fraction 0.05

Exit codes: 0 all that ran had the values of spmm, 1 a result differs, 2 usage, 65 malformed file, 66 no such file,
69 nothing could run, 71 memory, 73 cannot create a file, 74 reading or writing failed, 75 interrupted.
)";

constexpr std::uint64_t kMaxRuns = 10'000;
constexpr std::uint64_t kMaxThreads = 1024;
constexpr std::uint64_t kMaxDevice = 4095;

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-cusparse", "Times cuSPARSE on named cases, or on two files.\n");
  options.usage("[options] | [options] A.bin B.bin");
  options.add_options("hidden")("a", "", value())("b", "", value());
  options.add_options()                                                                                         //
      ("suites", "file of the suites (default: data/suites.json, here or above the program)", value(), "FILE")  //
      ("suite", "suites, with commas between", value(), "NAMES")                                                //
      ("case", "cases, with commas between", value(), "NAMES")                                                  //
      ("kernel", "f64-alg1, f64-alg2, f64-alg3, f32-alg1, f32-alg2, f32-alg3, with commas between; all",        //
       value("all"), "NAMES")                                                                                   //
      ("chunk-fraction", "of algorithms 2 and 3", value("0.2"), "F")                                            //
      ("runs", "timed runs", value("3"), "N")                                                                   //
      ("max-seconds", "patience with one product", value("30"), "S")                                            //
      ("check-products", "compare values up to so many multiply-adds", value("20_000_000"), "N")                //
      ("work", "folder for inputs (default: a temporary one)", value(), "DIR")                                  //
      ("device", "CUDA device", value("0"), "N")                                                                //
      ("threads", "host threads (default: all cores)", value(), "T")                                            //
      ("json", "write the measurement as JSON; - = standard output, without the table", value(), "FILE");
  cli::add_common_options(options);
  options.parse_positional({"a", "b"});
  return options;
}

std::vector<tools::CusparseWay> ways_of(const std::vector<std::string>& names) {
  std::vector<tools::CusparseWay> ways;
  for (const std::string& name : names) {
    bool is_known = name == "all";
    for (const tools::CusparseWay& way : tools::cusparse_ways()) {
      if (name != "all" && name != way.name) continue;
      ways.push_back(way);
      is_known = true;
    }
    if (!is_known) throw UsageError("--kernel", "unknown kernel \"" + name + "\"", "see spmm-cusparse --help");
  }
  return ways;
}

/// A product to time: what the JSON says of it, and how its files come about.
struct Job {
  Json json;
  tools::MakeInputs make_inputs;
};

Job file_job(const cli::ParsedOptions& parsed) {
  const fs::path a = cli::required_positional(parsed, "a", "first matrix");
  const fs::path b = cli::required_positional(parsed, "b", "second matrix");
  const MatrixHeader header = read_header(a);
  if (read_header(b).n != header.n) throw ShapeError(b.string(), "n differs from that of A", "name matrices that fit");
  return {.json = {{"name", a.stem().string()}, {"n", header.n}, {"m", header.m}, {"k", header.num_blocks}},
          .make_inputs = [a, b] { return std::pair(a, b); }};
}

std::vector<Job> make_jobs(const cli::ParsedOptions& parsed, const tools::BenchOptions& inputs) {
  if (parsed.count("a") > 0) return {file_job(parsed)};
  const auto suites = tools::load_suites(tools::suites_path(parsed));
  std::vector<Job> jobs;
  for (const tools::BenchCase& one :
       tools::select_cases(suites, tools::option_names(parsed, "suite"), tools::option_names(parsed, "case"), false)) {
    jobs.push_back({.json = tools::case_json(one), .make_inputs = [one, &inputs] {
                      return std::pair(tools::make_input(one, 1, inputs), tools::make_input(one, 2, inputs));
                    }});
  }
  if (jobs.empty()) {
    throw UsageError("command line", "no case is named",
                     "give --suite, --case or two files; spmm-bench --list shows cases");
  }
  return jobs;
}

tools::CusparseCaseOptions case_options(const cli::ParsedOptions& parsed) {
  tools::CusparseCaseOptions options;
  options.ways = ways_of(tools::option_names(parsed, "kernel"));
  options.product.num_runs = static_cast<unsigned>(*cli::option_count(parsed, "runs", 1, kMaxRuns));
  options.product.device = static_cast<int>(*cli::option_count(parsed, "device", 0, kMaxDevice));
  const auto fraction = cli::option_text(parsed, "chunk-fraction");
  options.product.chunk_fraction = static_cast<float>(cli::parse_fraction(fraction->value, fraction->where));
  options.patience_s = *tools::option_number(parsed, "max-seconds", 0);
  options.check_products = *cli::option_count(parsed, "check-products");
  options.num_threads = static_cast<unsigned>(cli::option_count(parsed, "threads", 1, kMaxThreads).value_or(0));
  return options;
}

/// Runs the jobs; the JSON file is complete up to the last finished one at any time.
int run_jobs(const std::vector<Job>& jobs, const tools::CusparseCaseOptions& options, const std::string& json_file,
             const std::vector<std::string>& command) {
  const bool with_table = json_file != "-";
  Json all = tools::measurement_head("spmm-cusparse", command);
  all["runs"] = options.product.num_runs;
  all["chunk_fraction"] = options.product.chunk_fraction;
  all["device"] = "";
  all["cases"] = Json::array();
  bool any_ran = false;
  bool all_same = true;
  if (with_table) std::cout << tools::cusparse_head() << std::flush;
  for (const Job& job : jobs) {
    Json found = tools::run_cusparse_case(job.make_inputs, options);
    if (with_table) std::cout << tools::cusparse_rows(job.json.at("name"), found) << std::flush;
    for (const Json& kernel : found["kernels"]) {
      any_ran = any_ran || kernel["status"] == "ok";
      all_same = all_same && kernel.value("same_values", true);
    }
    if (found["operands"].contains("device")) {
      all["device"] = found["operands"]["device"];
      found["operands"].erase("device");
    }
    Json one = job.json;
    one.update(found);
    all["cases"].push_back(std::move(one));
    if (!json_file.empty() && with_table) tools::write_json(json_file, all);
  }
  if (!with_table) tools::write_json("-", all);
  if (!any_ran) throw DeviceError("spmm-cusparse", "no product ran", "see the reasons in the table");
  return all_same ? cli::kOk : cli::kNegative;
}

int run(const cli::ParsedOptions& parsed, const std::vector<std::string>& command) {
  const tools::CusparseCaseOptions options = case_options(parsed);
  const auto json = cli::option_text(parsed, "json");
  if (json && json->value != "-") {  // before the work
    for (const char* input : {"a", "b", "suites"}) {
      if (const auto file = cli::option_text(parsed, input)) check_output_is_no_input(file->value, json->value);
    }
    io::find_target(json->value, false);
  }
  const tools::WorkFolder work(cli::option_text(parsed, "work"));
  tools::BenchOptions inputs;
  inputs.work = work.path();
  inputs.multiply.num_threads = options.num_threads;
  return run_jobs(make_jobs(parsed, inputs), options, json ? json->value : "", command);
}

}  // namespace

int main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-cusparse", .options = make_options, .notes = kNotes}, argc, argv,
                          [&](const cli::ParsedOptions& parsed) {
                            return run(parsed, {argv, argv + argc});
                          });
}
