// spmm-dense: times dense kernels on one or many shapes and compares their results with the host.
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/machine_memory.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "io/files/paths.hpp"
#include "spmm/error.hpp"
#include "tools/common/json.hpp"
#include "tools/common/options.hpp"
#include "tools/dense/dense.hpp"

namespace {

using namespace spmm;
using tools::format;
using tools::Json;

constexpr const char* kNotes = R"(
Multiplies random matrices A (J x K) and B (K x L). Types: i32 (wraps like C), f32, u16 (exact, saturated at
4294967295). Elements are uniform from -10 to 10, of u16 from 0 to 1023. --list shows the kernels of this build with
their tile widths.

Each kernel of the GPU runs once without a clock and --runs times between events, operands resident; host-naive runs
--runs times. GFLOPS = 2 J K L operations over the median. threads, regs, shared: of one CTA, regs per thread;
occupancy: resident warps over the most a multiprocessor holds.

--check: sample compares all rows of C where J K L is at most 2^33, else as many rows, chosen by --seed, as take that much
work; full compares every row. Exact types must not differ at all. f32 may differ from the sum in double by --threshold,
by default 6 sqrt(K) 2^-24 times the largest norms of a row of A and of a column of B. "all" leaves host-naive out where
J K L is more than 2^31.

Examples:
  spmm-dense --shape 1000x50x3000 --type i32
  spmm-dense --shape 1024,2048,1024x50x1024 --kernel tiled,register --tile all --json times.json
  spmm-dense --shape 512 --type u16 --kernel host-naive --check full

Exit codes: 0 every result right, 1 a result differs, 2 usage, 69 no kernel could run, 71 memory, 73 cannot create a
file, 74 reading or writing failed, 75 interrupted.
)";

constexpr std::uint64_t kMaxRuns = 10'000;

cli::OptionTable dense_options() {
  using cli::value;
  cli::OptionTable options("spmm-dense", "Times dense kernels and checks their results: C = A * B.\n");
  options.usage("[options]");
  options.add_options()                                                                                 //
      ("shape", "shapes JxKxL, or N for NxNxN, with commas between", value(), "LIST")                   //
      ("type", "f32, i32 or u16", value("f32"), "TYPE")                                                 //
      ("kernel", "kernels, with commas between; all = every one", value("all"), "NAMES")                //
      ("tile", "tile width (8, 16, 32), or all (default: 32)", value(), "T")                            //
      ("seed", "which random elements and rows", value("1"), "S")                                       //
      ("runs", "timed runs", value("3"), "N")                                                           //
      ("check", "compare with the host: sample, full or none", value("sample"), "MODE")                 //
      ("threshold", "largest difference that is no error (default: 0; f32 see below)", value(), "X")    //
      ("json", "write the results as JSON; - = standard output, without the table", value(), "FILE")    //
      ("threads", "host threads for random elements and the check (default: all cores)", value(), "T")  //
      ("list", "list the kernels of this build");
  cli::add_common_options(options);
  return options;
}

std::vector<dense::Shape> shapes_of(const cli::ParsedOptions& parsed) {
  const auto typed = cli::option_text(parsed, "shape");
  if (!typed) throw UsageError("--shape", "is missing", "give JxKxL, like 1024x50x1024, or N");
  std::vector<dense::Shape> shapes;
  for (const std::string& value : tools::split(typed->value, ',', typed->where)) {
    const std::vector<std::string> sides = tools::split(value, 'x', typed->where);
    if (sides.size() != 1 && sides.size() != 3) {
      throw UsageError(typed->where, "\"" + value + "\" is no shape", "write JxKxL, like 1024x50x1024, or N");
    }
    const auto side = [&](std::size_t s) {
      const std::string& number = sides[sides.size() == 1 ? 0 : s];
      return static_cast<std::uint32_t>(cli::parse_count(number, typed->where, 1, UINT32_MAX));
    };
    shapes.push_back({.rows = side(0), .inner = side(1), .cols = side(2)});
  }
  return shapes;
}

dense::RunOptions options_of(const cli::ParsedOptions& parsed) {
  dense::RunOptions options;
  options.type = std::array{dense::Type::f32, dense::Type::i32,
                            dense::Type::u16}[cli::option_choice(parsed, "type", {"f32", "i32", "u16"})];
  options.kernels = tools::option_list(parsed, "kernel");
  if (parsed.count("tile") > 0) {
    const std::array<std::vector<unsigned>, 4> tiles = {{{8}, {16}, {32}, {8, 16, 32}}};
    options.tiles = tiles[cli::option_choice(parsed, "tile", {"8", "16", "32", "all"})];
  }
  options.runs = static_cast<unsigned>(*cli::option_count(parsed, "runs", 1, kMaxRuns));
  options.check_budget = std::array{dense::kCheckBudget, UINT64_MAX,
                                    std::uint64_t{0}}[cli::option_choice(parsed, "check", {"sample", "full", "none"})];
  options.threshold = tools::option_number(parsed, "threshold", 0);
  options.seed = *cli::option_count(parsed, "seed");
  options.num_threads = tools::option_threads(parsed);
  return options;
}

// ---- what is said

std::string number(double value) {
  return format(value >= 1000 ? "%.0f" : "%.4g", value);
}

std::string shape_text(dense::Shape shape) {
  return text(shape.rows, "x", shape.inner, "x", shape.cols);
}

/// Of 2 * J * K * L operations in the median of the runs.
double gflops(dense::Shape shape, double median_ms) {
  return median_ms > 0 ? 2.0 * shape.rows * shape.inner * shape.cols * 1e-6 / median_ms : 0;
}

/// The verdict of the check, with what differs.
std::string verdict(const dense::Result& result) {
  if (!result.comparison) return "not checked";
  const dense::Comparison& c = *result.comparison;
  std::string words = result.passed() ? "ok" : text("WRONG: ", c.differences, " of ", c.elements, " differ");
  if (c.largest == 0) return words + ", no difference";
  return words + format(", largest %.3g (threshold %.3g)", c.largest, result.threshold);
}

constexpr const char* kTableHead =
    "shape              kernel       tile   ms median      ms min    GFLOPS  threads  regs   shared CTAs/SM occupancy  "
    "check\n";

/// Under kTableHead; occupancy and what leads to it are blank if the kernel has none.
std::string table_row(const dense::Result& result) {
  const dense::Request& request = result.request;
  const std::string line = format("%-18s %-11s %5s ", shape_text(request.shape).c_str(), request.kernel.c_str(),
                                  request.tile == 0 ? "" : std::to_string(request.tile).c_str());
  if (!result.ran()) return line + " refused: " + result.refusal + "\n";
  const Json times = tools::spread_json(result.measurement.run_ms);
  const double median = times["median"];
  const std::string figures = format("%11s %11s %9s ", number(median).c_str(), number(times["min"]).c_str(),
                                     number(gflops(request.shape, median)).c_str());
  const dense::Resources& taken = result.measurement.resources;
  const std::string resources =
      taken.threads_per_cta == 0
          ? std::string(42, ' ')
          : format("%8u %5u %8zu %7u %7.0f %% ", taken.threads_per_cta, taken.registers_per_thread,
                   taken.shared_bytes_per_cta, taken.ctas_per_multiprocessor, taken.occupancy * 100);
  return line + figures + resources + " " + verdict(result) + "\n";
}

Json result_json(const dense::Result& result) {
  const dense::Request& request = result.request;
  Json json = {{"kernel", request.kernel}, {"tile", request.tile}, {"status", result.ran() ? "ok" : "refused"}};
  if (!result.ran()) {
    json["reason"] = result.refusal;
    return json;
  }
  const dense::Resources& resources = result.measurement.resources;
  json["device"] = result.measurement.device;
  const Json times = tools::spread_json(result.measurement.run_ms);
  json["median_ms"] = times["median"];
  json["min_ms"] = times["min"];
  json["run_ms"] = result.measurement.run_ms;
  json["gflops"] = gflops(request.shape, times["median"]);
  json["resources"] = {{"threads_per_cta", resources.threads_per_cta},
                       {"registers_per_thread", resources.registers_per_thread},
                       {"shared_bytes_per_cta", resources.shared_bytes_per_cta},
                       {"ctas_per_multiprocessor", resources.ctas_per_multiprocessor},
                       {"occupancy", resources.occupancy}};
  if (!result.comparison) return json;
  const dense::Comparison& c = *result.comparison;
  json["check"] = {{"passed", result.passed()},
                   {"threshold", result.threshold},
                   {"elements", c.elements},
                   {"differences", c.differences},
                   {"largest_difference", c.largest}};
  return json;
}

Json product_json(const dense::Product& product) {
  Json results = Json::array();
  for (const dense::Result& result : product.results) results.push_back(result_json(result));
  return {{"rows", product.shape.rows},
          {"inner", product.shape.inner},
          {"cols", product.shape.cols},
          {"rows_checked", product.rows_checked},
          {"results", std::move(results)}};
}

int list_kernels(const std::optional<cli::OptionText>& json) {
  Json list = Json::array();
  std::string lines;
  for (const dense::KernelInfo& kernel : dense::kernels()) {
    list.push_back(
        {{"kernel", kernel.name}, {"what", kernel.what}, {"on_device", kernel.on_device}, {"tiles", kernel.tiles}});
    std::string tiles;
    for (const unsigned tile : kernel.tiles) tiles += text(tiles.empty() ? " (tile " : ", ", tile);
    lines += format("%-12s ", kernel.name.c_str()) + kernel.what + (tiles.empty() ? "" : tiles + ")") + "\n";
  }
  if (json) tools::write_json(json->value, {{"program", "spmm-dense"}, {"kernels", std::move(list)}});
  if (!json || json->value != "-") cli::print_answer(lines);
  return cli::kOk;
}

// ---- the run

/// Runs all shapes; the JSON file is complete up to the last finished shape at any time.
int run(const cli::ParsedOptions& parsed, const std::vector<std::string>& command) {
  const auto json_file = cli::option_text(parsed, "json");
  if (cli::option_flag(parsed, "list")) return list_kernels(json_file);
  const dense::RunOptions options = options_of(parsed);
  const std::vector<dense::Shape> shapes = shapes_of(parsed);
  const bool with_table = !json_file || json_file->value != "-";
  if (json_file && with_table) io::find_target(json_file->value, false);

  auto json = tools::measurement_head("spmm-dense", command);
  json["type"] = dense::type_name(options.type);
  json["seed"] = options.seed;
  json["runs"] = options.runs;
  json["products"] = Json::array();
  bool any_ran = false;
  bool all_passed = true;
  if (with_table) std::cout << kTableHead << std::flush;
  for (const dense::Shape shape : shapes) {
    dense::check_memory(options, shape, available_memory_bytes());
    const dense::Product product = dense::run_product(shape, options);
    for (const dense::Result& result : product.results) {
      if (with_table) std::cout << table_row(result) << std::flush;
      any_ran = any_ran || result.ran();
      all_passed = all_passed && result.passed();
    }
    if (with_table && product.rows_checked > 0) {
      std::cout << text(shape_text(shape), ": ", product.rows_checked, " of ", shape.rows,
                        " rows checked against the host",
                        options.type == dense::Type::f32 ? ", which sums in double\n" : ", every element exactly\n")
                << std::flush;
    }
    json["products"].push_back(product_json(product));
    if (json_file && with_table) tools::write_json(json_file->value, json);
  }
  if (!with_table) tools::write_json("-", json);
  if (!any_ran) throw DeviceError("kernels", "no kernel could run", "see the reasons in the table");
  return all_passed ? cli::kOk : cli::kNegative;
}

}  // namespace

int main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-dense", .options = dense_options, .notes = kNotes}, argc, argv,
                          [&](const cli::ParsedOptions& parsed) {
                            return run(parsed, {argv, argv + argc});
                          });
}
