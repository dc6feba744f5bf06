// JSON and tables of a measurement, and the comparison of two.
#include "tools/bench/bench.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/common/options.hpp"

namespace spmm::tools {
namespace {

constexpr const char* kNote =
    "Every run reads and uploads its inputs anew, so caches of the device are cold; inputs are in the page cache of "
    "the host as far as it holds them. Timed runs write to /dev/null, behind one that is not timed.";

template <class Figure>
Json spread_of(const std::vector<Report>& runs, const Figure& figure) {
  std::vector<double> values;
  for (const Report& run : runs) values.push_back(figure(run));
  return spread_json(std::move(values));
}

double multiply_ms(const Report& report) {
  return report.stage(Stage::multiply).s * 1000;
}

/// "12.3" with three digits, whole above 1000.
std::string short_number(double value) {
  return format(value >= 1000 ? "%.0f" : "%.3g", value);
}

/// "| a | b |" and a new line. A message may hold what would end a cell.
std::string table_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (std::string cell : cells) {
    std::replace(cell.begin(), cell.end(), '|', '/');
    line += " " + printable(cell) + " |";
  }
  return line + "\n";
}

/// "12.3 (11.9-13)".
std::string range_text(const Json& spread) {
  const auto number = [&](const char* key) { return short_number(spread.at(key).get<double>()); };
  return text(number("median"), " (", number("min"), "-", number("max"), ")");
}

/// 10^9 pairs per second of the median.
double pair_rate(std::uint64_t pairs, const Json& ms) {
  const double median = ms.at("median").get<double>();
  return median > 0 ? static_cast<double>(pairs) * 1e-6 / median : 0;
}

Json kernel_json(const KernelResult& kernel) {
  if (!kernel.ran()) {
    return {{"kernel", kernel.kernel}, {"status", kernel.too_slow ? "skipped" : "refused"}, {"reason", kernel.refusal}};
  }
  const Report& first = kernel.runs.front();
  Json stages = Json::object();  // that took time in some run
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    Json spread = spread_of(kernel.runs, [s](const Report& run) { return run.stages[s].s * 1000; });
    if (spread.at("max") > 0) stages[std::string(kStageNames[s])] = std::move(spread);
  }
  const Json multiply = spread_of(kernel.runs, multiply_ms);
  Json json = {{"kernel", kernel.kernel},
               {"status", "ok"},
               {"validated", kernel.validated()},
               {"backend", backend_name(first.plan.backend)},
               {"chosen", first.plan.kernel},
               {"device", first.device},
               {"threads", first.plan.num_threads},
               {"pairs", first.pairs},
               {"peak_device_bytes", first.peak_device_bytes},
               {"device_ms", spread_of(kernel.runs, device_ms)},
               {"multiply_ms", multiply},
               {"stages_ms", std::move(stages)},
               {"total_s", spread_of(kernel.runs, [](const Report& run) { return run.total_s; })},
               {"gpairs_per_s_multiply", pair_rate(first.pairs, multiply)}};
  if (!kernel.difference.empty()) json["difference"] = kernel.difference;
  return json;
}

// ---- two measurements

/// Entries of "kernels" by the names of case and kernel, as the table shows them.
std::map<std::string, const Json*> entries_of(const Json& measurement) {
  std::map<std::string, const Json*> entries;
  for (const Json& one : measurement.at("cases")) {
    for (const Json& kernel : one.at("kernels")) {
      entries[printable(one.at("name").get<std::string>()) + " | " +
              printable(kernel.at("kernel").get<std::string>())] = &kernel;
    }
  }
  return entries;
}

/// "ok", "WRONG BYTES", or why it did not run.
std::string state_of(const Json& kernel) {
  const auto status = kernel.at("status").get<std::string>();
  return status == "ok" && kernel.at("validated") != true ? "WRONG BYTES" : status;
}

/// "1.18 (12.3 -> 14.5)"; sets `worse` if that is slower beyond the spread of both.
std::string figure_text(const Json& before, const Json& after, double tolerance, bool& worse) {
  const double old_median = before.at("median").get<double>();
  const double new_median = after.at("median").get<double>();
  const bool slower =
      new_median > tolerance * old_median && after.at("min").get<double>() > before.at("max").get<double>();
  worse = worse || slower;
  return format("%.3f (%.4g -> %.4g)%s", old_median > 0 ? new_median / old_median : 1, old_median, new_median,
                slower ? " SLOWER" : "");
}

}  // namespace

double device_ms(const Report& report) {
  double sum = 0;
  for (const Stage stage : {Stage::build, Stage::count, Stage::plan, Stage::multiply, Stage::compact}) {
    sum += report.stage(stage).s * 1000;
  }
  return sum;
}

std::string table_header() {
  const std::vector<std::string> names = {"case",      "kernel",           "chosen",  "pairs",     "multiply ms",
                                          "device ms", "Gpair/s multiply", "total s", "same bytes"};
  return table_line(names) + table_line(std::vector<std::string>(names.size(), "---"));
}

std::string table_row(const CaseResult& result, const KernelResult& kernel) {
  if (!kernel.ran()) {
    return table_line(
        {result.what.name, kernel.kernel, (kernel.too_slow ? "skipped: " : "refused: ") + kernel.refusal});
  }
  const Json json = kernel_json(kernel);
  return table_line({result.what.name, kernel.kernel, json["chosen"], short_number(json["pairs"].get<double>()),
                     range_text(json["multiply_ms"]), range_text(json["device_ms"]),
                     short_number(json["gpairs_per_s_multiply"].get<double>()), range_text(json["total_s"]),
                     kernel.validated() ? "yes" : "NO: " + kernel.difference});
}

Json bench_json(const BenchOptions& options, const std::vector<std::string>& command) {
  Json json = measurement_head("spmm-bench", command);
  json["runs"] = options.num_runs;
  json["device"] = "";
  json["note"] = kNote;
  json["cases"] = Json::array();
  return json;
}

Json case_result_json(const CaseResult& result) {
  Json json = Json::parse(result.what.json);
  json["block_density"] = result.what.block_density();
  json["yardstick"] = result.baseline;  // the key in the layout of the files
  json["compared_by"] = "checksum";
  json["kernels"] = Json::array();
  for (const KernelResult& kernel : result.kernels) json["kernels"].push_back(kernel_json(kernel));
  return json;
}

Diff diff_results(const Json& before, const Json& after, double tolerance) {
  Diff diff{.table =
                "| case | kernel | multiply_ms new / old | device_ms new / old | total_s new / old |\n"
                "| --- | --- | --- | --- | --- |\n"};
  bool any = false;
  try {
    const auto old_entries = entries_of(before);
    auto new_entries = entries_of(after);
    for (const auto& [name, was] : old_entries) {
      const auto found = new_entries.find(name);
      if (found == new_entries.end()) {
        diff.table += "| " + name + " | only in the old file | | |\n";
        continue;
      }
      any = true;
      const Json& is = *found->second;
      const std::string old_state = state_of(*was);
      const std::string new_state = state_of(is);
      if (old_state == "ok" && new_state == "ok") {
        diff.table += "| " + name + " |";
        for (const char* figure : {"multiply_ms", "device_ms", "total_s"}) {
          diff.table += " " + figure_text(was->at(figure), is.at(figure), tolerance, diff.worse) + " |";
        }
        diff.table += "\n";
      } else {
        diff.worse = diff.worse || old_state == "ok";
        diff.table += "| " + name + " | " + old_state + " -> " + new_state + " | | |\n";
      }
      new_entries.erase(found);
    }
    for (const auto& [name, is] : new_entries) diff.table += "| " + name + " | only in the new file | | |\n";
  } catch (const Json::exception& e) {
    throw FormatError("--diff", text("a file lacks what spmm-bench writes (", e.what(), ")"),
                      "name two files that spmm-bench --json wrote");
  }
  if (!any) throw UsageError("--diff", "the files have no case and kernel in common", "measure the same cases twice");
  return diff;
}

}  // namespace spmm::tools
