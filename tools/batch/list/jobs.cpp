// Parses lines of a list of jobs.
#include "tools/batch/list/jobs.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cmath>
#include <filesystem>
#include <unordered_map>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::batch {
namespace {

constexpr std::size_t kMaxLine = 16384;  // three paths and options; an order to a worker stays one packet
constexpr std::uint64_t kMaxListRetries = 100;
constexpr double kMaxCost = 1e12;
constexpr std::size_t kNumPaths = 3;

std::string quoted(std::string_view value) {
  return "\"" + std::string(value) + "\"";
}

/// One line of a list, for messages.
struct Line {
  const ListPlace& place;
  std::uint64_t number;

  [[nodiscard]] std::string where() const { return text(place.name, ":", number); }
  [[nodiscard]] FormatError error(const std::string& problem, const std::string& remedy) const {
    return {where(), problem, remedy};
  }
};

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  columns.reserve(kNumPaths + 1);
  for (std::size_t at = 0;;) {
    const std::size_t tab = line.find('\t', at);
    columns.push_back(line.substr(at, tab - at));
    if (tab == std::string_view::npos) return columns;
    at = tab + 1;
  }
}

bool is_switch_on(std::string_view value, std::string_view key, const Line& line) {
  if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
  if (value == "0" || value == "false" || value == "no" || value == "off") return false;
  throw line.error(text(key, "=", value, " is neither on nor off"), text("write ", key, "=1 or ", key, "=0"));
}

Backend backend_of(std::string_view value, const Line& line) {
  for (const Backend backend : {Backend::automatic, Backend::cuda, Backend::cpu}) {
    if (value == backend_name(backend)) return backend;
  }
  throw line.error("backend " + quoted(value) + " is not known", "write backend=auto, cuda or cpu");
}

std::string kernel_of(std::string_view value, const Line& line) {
  if (value == "auto") return "auto";
  for (const KernelInfo& kernel : kernel_names()) {
    if (kernel.name == value) return kernel.name;
  }
  throw line.error("kernel " + quoted(value) + " is not known", "spmm --help lists the kernels");
}

OnSaturation on_saturation_of(std::string_view value, const Line& line) {
  if (value == "report") return OnSaturation::report;
  if (value == "error") return OnSaturation::error;
  throw line.error("on-saturation " + quoted(value) + " is not known", "write on-saturation=report or error");
}

std::uint64_t cost_of(std::string_view value, const Line& line) {
  double cost = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, cost);
  if (error != std::errc{} || stop != end || !(cost >= 0 && cost <= kMaxCost)) {
    throw line.error("cost " + quoted(value) + " is not a number from 0 to 1e12", "write it like cost=2.5");
  }
  return static_cast<std::uint64_t>(std::llround(cost * 1e6));
}

/// Calls a parser of the command line; what it refuses becomes an error of the list.
template <class Parse>
auto parsed_value(const Parse& parse) {
  try {
    return parse();
  } catch (const UsageError& e) {
    throw FormatError(std::string(e.where()), std::string(e.problem()), std::string(e.hint()));
  }
}

void apply_column(Job& job, std::string_view column, const Line& line) {
  const std::size_t equals = column.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw line.error("column " + quoted(column) + " is not key=value",
                     "write three paths and then key=value, with one tab between");
  }
  const std::string_view key = column.substr(0, equals);
  const std::string_view value = column.substr(equals + 1);
  if (key == "backend") {
    job.options.backend = backend_of(value, line);
  } else if (key == "kernel") {
    job.options.kernel = kernel_of(value, line);
  } else if (key == "verify") {
    job.options.verify_blocks =
        parsed_value([&] { return cli::parse_verify(std::string(value), text(line.where(), " verify")); });
  } else if (key == "transpose-a") {
    job.options.transpose_a = is_switch_on(value, key, line);
  } else if (key == "transpose-b") {
    job.options.transpose_b = is_switch_on(value, key, line);
  } else if (key == "rows") {
    job.options.rows = parsed_value([&] { return cli::parse_rows(std::string(value), text(line.where(), " rows")); });
  } else if (key == "durable") {
    job.options.durable = is_switch_on(value, key, line);
  } else if (key == "no-clobber") {
    job.options.no_clobber = is_switch_on(value, key, line);
  } else if (key == "on-saturation") {
    job.options.on_saturation = on_saturation_of(value, line);
  } else if (key == "timeout") {
    job.options.timeout_s =
        parsed_value([&] { return parse_seconds(std::string(value), text(line.where(), " timeout")); });
  } else if (key == "retries") {
    job.options.retries = parsed_value(
        [&] { return cli::parse_count(std::string(value), text(line.where(), " retries"), 0, kMaxListRetries); });
  } else if (key == "cost") {
    job.cost_micro = cost_of(value, line);
  } else {
    throw line.error(
        "key " + quoted(key) + " is not known",
        "give backend, kernel, verify, on-saturation, transpose-a, transpose-b, rows, durable, no-clobber, "
        "timeout, retries or "
        "cost");
  }
}

/// A named kernel names its backend too.
void settle_backend(JobOptions& options, const Line& line) {
  if (options.kernel == "auto") return;
  for (const KernelInfo& kernel : kernel_names()) {
    if (kernel.name != options.kernel || kernel.backend == options.backend) continue;
    if (options.backend == Backend::automatic) {
      options.backend = kernel.backend;
      return;
    }
    throw line.error(text("kernel ", kernel.name, " belongs to backend ", backend_name(kernel.backend), ", not ",
                          backend_name(options.backend)),
                     "leave one of them out");
  }
}

std::string path_of(std::string_view column, const char* what, const Line& line) {
  if (column.empty()) throw line.error(text(what, " is empty"), "write its path, with one tab between columns");
  std::string path = absolute_path(column, line.place.folder);
  if (path.size() >= PATH_MAX) throw line.error(text(what, " has ", path.size(), " characters"), "shorten the path");
  return path;
}

std::string output_of(std::string_view column, const Line& line) {
  std::string path = path_of(column, "OUT", line);
  try {
    io::reject_foreign_ending(path);
  } catch (const UsageError& e) {
    throw line.error(text(e.where(), ' ', e.problem()), std::string(e.hint()));
  }
  return path;
}

}  // namespace

void throw_empty(const std::string& list) {
  throw FormatError(list, "is empty, expected a list of jobs", "check what writes it");
}

std::string working_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  if (!error) return folder.string();
  throw InputError("working folder", text("is not there any more (", error.message(), ")"),
                   "change to a folder that is there (cd)");
}

std::string absolute_path(std::string_view path, const std::string& folder) {
  std::string joined = path.starts_with('/') ? std::string(path) : text(folder, "/", path);
  const bool is_plain = joined.find("//") == std::string::npos && joined.find("/.") == std::string::npos;
  return is_plain ? joined : std::filesystem::path(joined).lexically_normal().string();
}

std::string rows_text(RowRange rows) {
  return text(rows.first, ':', rows.end == RowRange{}.end ? "" : text(rows.end));
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
    throw UsageError(where, "\"" + text + "\" is not a time", "write it like 30, 1.5s, 5m, 2h or 1d");
  }
  return value * found->second;
}

std::optional<Job> parse_job_line(std::string_view content, std::uint64_t number, const ListPlace& place,
                                  const JobOptions& defaults) {
  const Line line{.place = place, .number = number};
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (number == 1 && content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
  if (content.ends_with('\r')) content.remove_suffix(1);
  const std::size_t first = content.find_first_not_of(" \t");
  if (first == std::string_view::npos || content[first] == '#') return std::nullopt;
  if (content.size() > kMaxLine) {
    throw line.error(text("has ", content.size(), " characters, expected at most ", kMaxLine), "shorten the paths");
  }
  if (content.find('\0') != std::string_view::npos) {
    throw line.error("holds a zero byte", "a list is text: A, B and OUT, one job a line");
  }
  const auto columns = columns_of(content);
  if (columns.size() < kNumPaths) {
    throw line.error(
        text("has ", columns.size(), columns.size() == 1 ? " column" : " columns", ", expected A, B and OUT"),
        "put one tab between the paths");
  }
  Job job{.line = number,
          .a = path_of(columns[0], "A", line),
          .b = path_of(columns[1], "B", line),
          .out = output_of(columns[2], line),
          .options = defaults};
  for (std::size_t c = kNumPaths; c < columns.size(); ++c) {
    const std::string_view key = columns[c].substr(0, columns[c].find('='));
    for (std::size_t before = kNumPaths; before < c; ++before) {
      if (columns[before].substr(0, columns[before].find('=')) != key) continue;
      throw line.error("key " + quoted(key) + " is given twice", "leave one of them out");
    }
    apply_column(job, columns[c], line);
  }
  settle_backend(job.options, line);
  return job;
}

JobList parse_job_list(std::string_view text, const ListPlace& place, const JobOptions& defaults) {
  JobList list;
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    try {
      auto job = parse_job_line(line, number, place, defaults);
      if (!job) continue;
      list.has_costs = list.has_costs || line.find("\tcost=") != std::string_view::npos;
      list.jobs.push_back(std::move(*job));
    } catch (const FormatError& e) {
      if (++list.num_problems <= kMaxProblems) list.problems.emplace_back(e.what());
    }
  }
  return list;
}

}  // namespace spmm::batch
