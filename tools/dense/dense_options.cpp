#include "tools/dense/dense_options.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "cli/self_description.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxSide = UINT32_MAX;
constexpr std::uint64_t kMaxRuns = 10'000;
constexpr std::uint64_t kMaxThreads = 1024;
constexpr std::array kTypes = {dense::Type::f32, dense::Type::i32, dense::Type::u16, dense::Type::s8};

/// Parts of "a,b", with another separator than a comma where that is given. Errors: UsageError (an empty part).
std::vector<std::string> split(const cli::OptionText& typed, const std::string& value, char separator) {
  std::vector<std::string> parts;
  std::istringstream list(value + separator);
  for (std::string part; std::getline(list, part, separator);) {
    if (part.empty()) throw UsageError(typed.where, text("\"", value, "\" has an empty part"), "see --help");
    parts.push_back(part);
  }
  return parts;
}

std::uint32_t side(const std::string& typed, const std::string& where) {
  return static_cast<std::uint32_t>(cli::parse_count(typed, where, 1, kMaxSide));
}

/// "1024x50x1024", or "1024" for a square product.
dense::Shape shape_of(const cli::OptionText& typed, const std::string& value) {
  const std::vector<std::string> sides = split(typed, value, 'x');
  if (sides.size() != 1 && sides.size() != 3) {
    throw UsageError(typed.where, "\"" + value + "\" is no shape", "write JxKxL, like 1024x50x1024, or N");
  }
  const auto number = [&](std::size_t s) { return side(sides[sides.size() == 1 ? 0 : s], typed.where); };
  return {.rows = number(0), .inner = number(1), .cols = number(2)};
}

/// Shapes of random operands: of --shape, or the one of --rows, --inner and --cols.
std::vector<dense::Shape> shapes_of(const cli::ParsedOptions& parsed) {
  std::vector<dense::Shape> shapes;
  const auto list = cli::option_text(parsed, "shape");
  std::vector<std::optional<std::uint64_t>> sides;
  for (const char* option : {"rows", "inner", "cols"}) {
    sides.push_back(cli::option_count(parsed, option, 1, kMaxSide));
    if (list && sides.back())
      throw UsageError("--shape", text("is given together with --", option), "give one of them");
    if (!list && !sides.back()) {
      throw UsageError(text("--", option), "is missing", "give --rows, --inner and --cols, or --shape, or two files");
    }
  }
  if (list) {
    for (const std::string& value : split(*list, list->value, ',')) shapes.push_back(shape_of(*list, value));
    return shapes;
  }
  const auto number = [&](std::size_t s) { return static_cast<std::uint32_t>(*sides[s]); };
  return {{.rows = number(0), .inner = number(1), .cols = number(2)}};
}

/// Files exclude what only random operands have.
std::vector<std::string> files_of(const cli::ParsedOptions& parsed) {
  if (parsed.count("A") == 0) return {};
  for (const char* option : {"rows", "inner", "cols", "shape", "range"}) {
    if (parsed.count(option) == 0) continue;
    throw UsageError(text("--", option), "is given together with files", "the files say it; leave it out");
  }
  return {cli::required_positional(parsed, "A", "left operand (A)"),
          cli::required_positional(parsed, "B", "right operand (B)")};
}

dense::Type type_of(const cli::ParsedOptions& parsed) {
  std::vector<std::string> names;
  for (const dense::Type type : kTypes) names.emplace_back(dense::type_name(type));
  return kTypes[cli::option_choice(parsed, "type", names)];
}

TileChoice tile_of(const cli::ParsedOptions& parsed) {
  const auto typed = cli::option_text(parsed, "tile");
  if (!typed) return {};
  if (typed->value == "all") return {.every = true};
  return {.width = static_cast<unsigned>(cli::parse_count(typed->value, typed->where, 1, UINT16_MAX))};
}

std::optional<double> threshold_of(const cli::ParsedOptions& parsed) {
  const auto typed = cli::option_text(parsed, "threshold");
  if (!typed) return std::nullopt;
  double value = 0;
  const char* const end = typed->value.data() + typed->value.size();
  const auto [stop, error] = std::from_chars(typed->value.data(), end, value);
  if (error == std::errc{} && stop == end && std::isfinite(value) && value >= 0) return value;
  throw UsageError(typed->where, "\"" + typed->value + "\" is no threshold", "give a number from 0 up, like 1e-3");
}

/// Only one C can be printed.
void check_print(const DenseJob& job) {
  if (!job.print) return;
  if (job.print->value.empty()) throw UsageError(job.print->where, "the name is empty", "name a folder");
  std::size_t num_results = 0;
  for (const dense::Shape shape : job.shapes) num_results += plan_results(job.options, shape).size();
  if (num_results == 1) return;
  throw UsageError(job.print->where, text("would print ", num_results, " products over each other"),
                   "name one kernel, one shape and one tile width");
}

}  // namespace

cli::OptionTable dense_description() {
  using cli::value;
  cli::OptionTable options("spmm-dense", "Times dense kernels and checks their results: C = A * B.\n");
  options.usage("[options] [A B]");
  options.add_options("hidden")("A", "", value())("B", "", value());
  options.add_options()                                                                //
      ("rows", "rows of A and C", value(), "J")                                        //
      ("inner", "columns of A, rows of B", value(), "K")                               //
      ("cols", "columns of B and C", value(), "L")                                     //
      ("shape", "shapes JxKxL, or N for NxNxN, with commas between", value(), "LIST")  //
      ("type", "f32, i32, u16 or s8", value("f32"), "TYPE")                            //
      ("kernel", "kernels, with commas between; all = every one that has the type", value("all"),
       "NAMES")                                                                                         //
      ("tile", "tile width (8, 16, 32), or all (default: the kernel's own)", value(), "T")              //
      ("range", "of random elements (default: -10:10; u16 0:1023)", value(), "LOW:HIGH")                //
      ("seed", "which random elements and rows", value("1"), "S")                                       //
      ("runs", "timed runs", value("3"), "N")                                                           //
      ("check", "compare with the host: sample, full or none", value("sample"), "MODE")                 //
      ("threshold", "largest difference that is no error (default: 0; f32 see below)", value(), "X")    //
      ("print", "write A, B and C into this folder as text and CSV", value(), "DIR")                    //
      ("json", "write the results as JSON; - = standard output, without the table", value(), "FILE")    //
      ("threads", "host threads for random elements and the check (default: all cores)", value(), "T")  //
      ("list", "list the kernels of this build");
  cli::add_common_options(options);
  options.parse_positional({"A", "B"});
  return options;
}

DenseJob parse_dense(const cli::ParsedOptions& parsed) {
  DenseJob job;
  DenseOptions& options = job.options;
  options.type = type_of(parsed);
  const auto kernels = *cli::option_text(parsed, "kernel");
  options.kernels = split(kernels, kernels.value, ',');
  options.tile = tile_of(parsed);
  options.runs = static_cast<unsigned>(*cli::option_count(parsed, "runs", 1, kMaxRuns));
  options.check = static_cast<CheckMode>(cli::option_choice(parsed, "check", {"sample", "full", "none"}));
  options.threshold = threshold_of(parsed);
  options.seed = *cli::option_count(parsed, "seed");
  options.num_threads =
      static_cast<unsigned>(cli::option_count(parsed, "threads", 1, kMaxThreads).value_or(usable_cores()));
  job.files = files_of(parsed);
  job.shapes = job.files.empty() ? shapes_of(parsed) : std::vector<dense::Shape>(1);
  const auto range = cli::option_text(parsed, "range");
  job.range = parse_range(range ? range->value : default_range(options.type), options.type, range ? range->where : "");
  const auto json = cli::option_text(parsed, "json");
  if (json && json->value.empty()) throw UsageError(json->where, "the file name is empty", "name a file, or -");
  job.json = json ? json->value : "";
  job.print = cli::option_text(parsed, "print");
  check_print(job);
  return job;
}

}  // namespace spmm::tools
