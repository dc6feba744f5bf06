// JSON and tables of a measurement.
#include "tools/bench/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "tools/common/measurement.hpp"

namespace spmm::tools {
namespace {

constexpr const char* kNote =
    "Every run reads and uploads its inputs anew, so caches of the device are cold; inputs are in the page cache of "
    "the host as far as it holds them. Timed runs write to /dev/null; file_total_s is one run that writes a new file; "
    "e2e_s are whole processes that write one.";

constexpr std::array<Stage, 5> kDeviceStages = {Stage::build, Stage::count, Stage::plan, Stage::multiply,
                                                Stage::compact};

/// Median, least and largest of some numbers.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {.median = median, .min = values.front(), .max = values.back()};
}

template <class Figure>
Spread spread_of(const std::vector<Report>& runs, const Figure& figure) {
  std::vector<double> values;
  for (const Report& run : runs) values.push_back(figure(run));
  return spread_of(std::move(values));
}

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

double stage_ms(const Report& report, Stage stage) {
  return report.stage(stage).s * 1000;
}

double multiply_ms(const Report& report) {
  return stage_ms(report, Stage::multiply);
}

double total_s(const Report& report) {
  return report.total_s;
}

/// "12.3" with three digits, whole above 1000.
std::string short_number(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), value >= 1000 ? "%.0f" : "%.3g", value);
  return out.data();
}

/// "| a | b |" and a new line.
std::string table_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + printable(cell) + " |";
  return line + "\n";
}

/// The names of the columns and the line below them.
std::string table_head(const std::vector<std::string>& names) {
  return table_line(names) + table_line(std::vector<std::string>(names.size(), "---"));
}

/// 10^9 pairs per second.
double pair_rate(std::uint64_t pairs, double ms) {
  return ms > 0 ? static_cast<double>(pairs) * 1e-6 / ms : 0;
}

std::string range_text(const Spread& spread) {
  return text(short_number(spread.median), " (", short_number(spread.min), "-", short_number(spread.max), ")");
}

/// Spread of every stage that took time in some run.
Json stages_json(const std::vector<Report>& runs) {
  Json stages = Json::object();
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    const Spread spread = spread_of(runs, [s](const Report& run) { return run.stages[s].s * 1000; });
    if (spread.max > 0) stages[std::string(kStageNames[s])] = spread_json(spread);
  }
  return stages;
}

Json kernel_json(const CaseResult& result, const KernelResult& kernel) {
  if (!kernel.ran()) {
    return {{"kernel", kernel.kernel}, {"status", kernel.too_slow ? "skipped" : "refused"}, {"reason", kernel.refusal}};
  }
  const Report& first = kernel.runs.front();
  const Spread device = spread_of(kernel.runs, device_ms);
  const Spread multiply = spread_of(kernel.runs, multiply_ms);
  Json json = {{"kernel", kernel.kernel},
               {"status", "ok"},
               {"validated", kernel.validated()},
               {"backend", backend_name(first.plan.backend)},
               {"chosen", first.plan.kernel},
               {"device", first.device},
               {"threads", first.plan.num_threads},
               {"pairs", first.pairs},
               {"peak_device_bytes", first.peak_device_bytes},
               {"device_ms", spread_json(device)},
               {"multiply_ms", spread_json(multiply)},
               {"stages_ms", stages_json(kernel.runs)},
               {"total_s", spread_json(spread_of(kernel.runs, total_s))},
               {"gpairs_per_s_multiply", pair_rate(first.pairs, multiply.median)}};
  if (!kernel.difference.empty()) json["difference"] = kernel.difference;
  if (!result.checksum) json["file_total_s"] = kernel.file_run.total_s;
  if (!kernel.processes.failure.empty()) json["e2e_failure"] = kernel.processes.failure;
  if (!kernel.processes.s.empty()) {
    json["e2e_s"] = spread_json(spread_of(kernel.processes.s));
    json["e2e_peak_resident_bytes"] = kernel.processes.peak_resident_bytes;
  }
  return json;
}

}  // namespace

double device_ms(const Report& report) {
  double sum = 0;
  for (const Stage stage : kDeviceStages) sum += stage_ms(report, stage);
  return sum;
}

std::string table_header() {
  return table_head({"case", "kernel", "chosen", "pairs", "multiply ms", "device ms", "Gpair/s multiply",
                     "total s (null)", "total s (file)", "process s", "same bytes"});
}

std::string table_row(const CaseResult& result, const KernelResult& kernel) {
  if (!kernel.ran()) {
    // A message may hold what would end a cell.
    std::string why = kernel.refusal;
    std::replace(why.begin(), why.end(), '|', '/');
    return table_line({result.what.name, kernel.kernel, (kernel.too_slow ? "skipped: " : "refused: ") + why});
  }
  const Report& first = kernel.runs.front();
  const Spread device = spread_of(kernel.runs, device_ms);
  const Spread multiply = spread_of(kernel.runs, multiply_ms);
  std::vector<std::string> words = {result.what.name,
                                    kernel.kernel,
                                    first.plan.kernel,
                                    short_number(static_cast<double>(first.pairs)),
                                    range_text(multiply),
                                    range_text(device),
                                    short_number(pair_rate(first.pairs, multiply.median)),
                                    range_text(spread_of(kernel.runs, total_s)),
                                    result.checksum ? "" : short_number(kernel.file_run.total_s)};
  std::string process = kernel.processes.failure.empty() ? "" : "failed";
  if (!kernel.processes.s.empty()) process = range_text(spread_of(kernel.processes.s));
  words.push_back(process);
  words.push_back(kernel.validated() ? "yes" : "NO: " + kernel.difference);
  return table_line(words);
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
  Json json = case_json(result.what);
  json["block_density"] = result.what.block_density();
  json["yardstick"] = result.baseline;  // the key in the layout of the files
  json["compared_by"] = result.checksum ? "checksum" : "file";
  if (!result.baseline.empty()) {
    json["baseline"] = {{"kernel", result.baseline},
                        {"device_ms", device_ms(result.baseline_run)},
                        {"multiply_ms", multiply_ms(result.baseline_run)},
                        {"total_s", result.baseline_run.total_s}};
  }
  Json kernels = Json::array();
  for (const KernelResult& kernel : result.kernels) kernels.push_back(kernel_json(result, kernel));
  json["kernels"] = std::move(kernels);
  return json;
}

std::string comparison_table(const Json& measurement) {
  const Json& cases = measurement.at("cases");
  const auto find = [](const Json& all, const char* key, const Json& name) {
    return std::find_if(all.begin(), all.end(), [&](const Json& one) { return one.at(key) == name; });
  };
  std::string lines;
  for (const Json& one : cases) {
    if (!one.contains("compare_with")) continue;
    const auto partner = find(cases, "name", one.at("compare_with"));
    if (partner == cases.end()) continue;
    const double m_ratio = one.at("m").get<double>() / partner->at("m").get<double>();
    for (const Json& kernel : one.at("kernels")) {
      const Json& others = partner->at("kernels");
      const auto other = find(others, "kernel", kernel.at("kernel"));
      if (other == others.end() || kernel.at("status") != "ok" || other->at("status") != "ok") continue;
      const double work = kernel.at("pairs").get<double>() / other->at("pairs").get<double>() * std::pow(m_ratio, 3);
      const auto ratio = [&](const char* figure) {
        const double base = other->at(figure).at("median").get<double>() * work;
        return base > 0 ? short_number(kernel.at(figure).at("median").get<double>() / base) : "";
      };
      lines += table_line({one.at("name").get<std::string>(), kernel.at("kernel").get<std::string>(),
                           one.at("compare_with").get<std::string>(), ratio("multiply_ms"), ratio("device_ms"),
                           ratio("total_s")});
    }
  }
  return lines.empty() ? "" : table_head({"case", "kernel", "compared with", "multiply", "device", "total"}) + lines;
}

}  // namespace spmm::tools
