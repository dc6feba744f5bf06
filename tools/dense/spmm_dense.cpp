// spmm-dense: times dense kernels on one or many shapes and compares their results with the host.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/memory/machine_memory.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "io/files/paths.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "tools/common/measurement.hpp"
#include "tools/common/random.hpp"
#include "tools/dense/dense_matrix.hpp"
#include "tools/dense/dense_options.hpp"
#include "tools/dense/dense_report.hpp"
#include "tools/dense/dense_run.hpp"

namespace {

using namespace spmm;
namespace fs = std::filesystem;

constexpr const char* kNotes = R"(
Multiplies A (J x K) by B (K x L). Operands are random (--rows, --inner, --cols, or --shape), or two files: text or CSV,
one row per line. Types: i32 (wraps like C), f32, u16 (exact, saturated at 4294967295), s8 (int8 into int32). --list
shows the kernels of this build with their types and tile widths.

Each kernel of the GPU runs once without a clock and --runs times between events, operands resident; host-naive runs
--runs times. GFLOPS = 2 J K L operations over the median. threads, regs, shared: of one CTA, regs per thread;
occupancy: resident warps over the most a multiprocessor holds.

--check: sample compares all rows of C where J K L is at most 2^33, else as many rows, chosen by --seed, as take that much
work; full compares every row. Exact types must not differ at all. f32 may differ from the sum in double by --threshold,
by default 6 sqrt(K) 2^-24 times the largest norms of a row of A and of a column of B. "all" leaves host-naive out where
J K L is more than 2^31.

Examples:
  spmm-dense --rows 1000 --inner 50 --cols 3000 --type i32
  spmm-dense --shape 1024,2048,1024x50x1024 --kernel tiled,library --tile all --json times.json
  spmm-dense --rows 3 --inner 4 --cols 5 --type u16 --range 0:9 --kernel host-naive --print small
  spmm-dense a.csv b.csv --kernel tiled --print product

Exit codes: 0 every result right, 1 a result differs, 2 usage, 65 malformed file or sides that do not fit, 66 no such
file, 69 no kernel could run, 71 memory, 73 cannot create a file, 74 reading or writing failed, 75 interrupted.
)";

/// Writes A, B and C into a folder, each as NAME.txt and NAME.csv.
class Printer {
 public:
  explicit Printer(const std::optional<cli::OptionText>& folder) {
    if (!folder) return;
    folder_ = folder->value;
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) throw OutputError(folder->value, failed.message(), "name a folder that can be made with --print");
  }

  void product(const tools::DenseMatrix& a, const tools::DenseMatrix& b, const tools::DenseResult& result,
               std::span<const std::byte> c) const {
    if (folder_.empty() || !result.ran()) return;
    const dense::Type type = result.request.type;
    write("A", type, tools::Operand::input, a.elements, a.cols);
    write("B", type, tools::Operand::input, b.elements, b.cols);
    write("C", type, tools::Operand::result, c, b.cols);
  }

 private:
  void write(const std::string& name, dense::Type type, tools::Operand operand, std::span<const std::byte> elements,
             std::uint32_t cols) const {
    tools::write_dense(folder_ / (name + ".txt"), type, operand, elements, cols, ' ');
    tools::write_dense(folder_ / (name + ".csv"), type, operand, elements, cols, ',');
  }

  fs::path folder_;
};

/// Operands of one product, made when their turn comes.
std::pair<tools::DenseMatrix, tools::DenseMatrix> make_operands(const tools::DenseJob& job, dense::Shape shape) {
  const tools::DenseOptions& options = job.options;
  if (!job.files.empty()) {
    return {tools::read_dense(job.files[0], options.type), tools::read_dense(job.files[1], options.type)};
  }
  tools::checked_memory(options, shape, available_memory_bytes());
  const auto make = [&](std::uint32_t rows, std::uint32_t cols, std::uint64_t place) {
    return tools::random_dense(options.type, rows, cols, job.range, tools::random_at(options.seed, place),
                               options.num_threads);
  };
  return {make(shape.rows, shape.inner, 0), make(shape.inner, shape.cols, 1)};
}

tools::Json header_json(const tools::DenseJob& job, const std::vector<std::string>& command) {
  const tools::DenseOptions& options = job.options;
  auto json = tools::measurement_head("spmm-dense", command);
  json["type"] = dense::type_name(options.type);
  json["range"] = {job.range.low, job.range.high};
  json["seed"] = options.seed;
  json["runs"] = options.runs;
  json["products"] = tools::Json::array();
  return json;
}

/// Runs all shapes; the JSON file is complete up to the last finished shape at any time.
int run_job(const tools::DenseJob& job, const std::vector<std::string>& command) {
  for (const dense::Shape shape : job.shapes) tools::plan_results(job.options, shape);  // mistakes before work
  const Printer printer(job.print);
  const bool with_table = job.json != "-";
  auto json = header_json(job, command);
  bool any_ran = false;
  bool all_passed = true;
  if (with_table) std::cout << tools::dense_table_header() << std::flush;
  for (const dense::Shape shape : job.shapes) {
    const auto operands = make_operands(job, shape);
    const auto after_each = [&](const tools::DenseResult& result, std::span<const std::byte> c) {
      if (with_table) std::cout << tools::dense_table_row(result) << std::flush;
      any_ran = any_ran || result.ran();
      all_passed = all_passed && result.passed();
      printer.product(operands.first, operands.second, result, c);
    };
    const auto product = tools::run_product(operands.first, operands.second, job.options, after_each);
    if (with_table) std::cout << tools::check_text(product, job.options) << std::flush;
    json["products"].push_back(tools::dense_product_json(product));
    if (!job.json.empty() && with_table) tools::write_json(job.json, json);
  }
  if (!with_table) tools::write_json("-", json);
  if (!any_ran) throw DeviceError("kernels", "no kernel could run", "see the reasons in the table");
  return all_passed ? cli::kOk : cli::kNegative;
}

/// Mistakes before the work. Errors: UsageError (an output is an operand), OutputError.
void check_outputs(const tools::DenseJob& job) {
  const bool has_json = !job.json.empty() && job.json != "-";
  for (const std::string& input : job.files) {
    if (has_json) check_output_is_no_input(input, job.json);
    for (const char* name : {"A.txt", "A.csv", "B.txt", "B.csv", "C.txt", "C.csv"}) {
      if (job.print) check_output_is_no_input(input, fs::path(job.print->value) / name);
    }
  }
  if (has_json) io::find_target(job.json, false);
}

int run(const cli::ParsedOptions& parsed, const std::vector<std::string>& command) {
  const auto json = cli::option_text(parsed, "json");
  if (cli::option_flag(parsed, "list")) {
    if (json) tools::write_json(json->value, tools::dense_kernels_json());
    if (!json || json->value != "-") std::cout << tools::dense_kernels_text();
    return cli::kOk;
  }
  const tools::DenseJob job = tools::parse_dense(parsed);
  check_outputs(job);
  return run_job(job, command);
}

}  // namespace

int main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-dense", .options = tools::dense_description, .notes = kNotes}, argc, argv,
                          [&](const cli::ParsedOptions& parsed) {
                            return run(parsed, {argv, argv + argc});
                          });
}
