// JSON and tables of a measurement.
#include "tools/bench/report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "io/formats/format.hpp"
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

/// 10^9 pairs per second.
double pair_rate(std::uint64_t pairs, double ms) {
  return ms > 0 ? static_cast<double>(pairs) * 1e-6 / ms : 0;
}

std::string range_text(const Spread& spread) {
  return text(short_number(spread.median), " (", short_number(spread.min), "-", short_number(spread.max), ")");
}

std::uint64_t bytes_in(const Report& report) {
  return io::file_bytes_of(ElementType::u16, report.a) + io::file_bytes_of(ElementType::u16, report.b);
}

std::uint64_t bytes_out(const Report& report) {
  return io::file_bytes_of(ElementType::u32, report.c);
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

Json run_json(const Report& report) {
  Json stages = Json::object();
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    if (report.stages[s].s > 0) stages[std::string(kStageNames[s])] = report.stages[s].s * 1000;
  }
  return {{"device_ms", device_ms(report)},
          {"multiply_ms", multiply_ms(report)},
          {"total_s", report.total_s},
          {"stages_ms", std::move(stages)}};
}

/// Adds what the planner expected of the kernel, and how far that was from what was measured.
void add_prediction(Json& json, const CaseResult& result, const KernelResult& kernel) {
  const auto predicted = predicted_ms(result, kernel);
  if (!predicted) return;
  json["predicted_ms"] = *predicted;
  if (*predicted <= 0) return;
  json["device_over_predicted"] = spread_of(kernel.runs, device_ms).median / *predicted;
}

/// Adds times of files and whole processes.
void add_totals(Json& json, const CaseResult& result, const KernelResult& kernel) {
  if (!result.checksum) json["file_total_s"] = kernel.file_run.total_s;
  if (!kernel.e2e_failure.empty()) json["e2e_failure"] = kernel.e2e_failure;
  if (kernel.e2e_s.empty()) return;
  const Spread e2e = spread_of(kernel.e2e_s);
  json["e2e_s"] = spread_json(e2e);
  json["e2e_runs_s"] = kernel.e2e_s;
  json["e2e_peak_resident_bytes"] = kernel.e2e_peak_resident_bytes;
  if (result.what.published_s) json["published_over_e2e"] = *result.what.published_s / e2e.median;
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
               {"reason", reason_text(first.plan)},
               {"device", first.device},
               {"threads", first.plan.num_threads},
               {"pairs", first.pairs},
               {"terms", static_cast<double>(first.pairs) * first.a.m * first.a.m * first.a.m},
               {"bytes_in", bytes_in(first)},
               {"bytes_out", bytes_out(first)},
               {"bytes_read", first.stage(Stage::read).bytes},
               {"predicted_s", first.plan.predicted_s},
               {"peak_device_bytes", first.peak_device_bytes},
               {"device_ms", spread_json(device)},
               {"multiply_ms", spread_json(multiply)},
               {"stages_ms", stages_json(kernel.runs)},
               {"total_s", spread_json(spread_of(kernel.runs, total_s))},
               {"gpairs_per_s_multiply", pair_rate(first.pairs, multiply.median)},
               {"gpairs_per_s_device", pair_rate(first.pairs, device.median)}};
  if (!kernel.difference.empty()) json["difference"] = kernel.difference;
  add_prediction(json, result, kernel);
  add_totals(json, result, kernel);
  Json runs = Json::array();
  for (const Report& run : kernel.runs) runs.push_back(run_json(run));
  json["runs"] = std::move(runs);
  return json;
}

}  // namespace

std::optional<double> predicted_ms(const Plan& plan, const std::string& kernel) {
  if (!plan.exact || plan.candidates.size() < 2) return std::nullopt;
  for (const Candidate& one : plan.candidates) {
    if (one.fits && one.kernel == kernel) return one.predicted_ms;
  }
  return std::nullopt;
}

std::optional<double> predicted_ms(const CaseResult& result, const KernelResult& kernel) {
  const Plan& own = kernel.runs.front().plan;
  if (const auto found = predicted_ms(own, own.kernel)) return found;
  for (const KernelResult& other : result.kernels) {
    if (!other.ran()) continue;
    if (const auto found = predicted_ms(other.runs.front().plan, own.kernel)) return found;
  }
  return std::nullopt;
}

double device_ms(const Report& report) {
  double sum = 0;
  for (const Stage stage : kDeviceStages) sum += stage_ms(report, stage);
  return sum;
}

std::string table_header() {
  return table_head({"case", "kernel", "chosen", "pairs", "multiply ms", "device ms", "Gpair/s multiply",
                     "Gpair/s device", "total s (null)", "total s (file)", "same bytes"});
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
                                    short_number(pair_rate(first.pairs, device.median)),
                                    range_text(spread_of(kernel.runs, total_s)),
                                    result.checksum ? "" : short_number(kernel.file_run.total_s)};
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
    json["baseline"] = run_json(result.baseline_run);
    json["baseline"]["kernel"] = result.baseline;
  }
  Json kernels = Json::array();
  for (const KernelResult& kernel : result.kernels) kernels.push_back(kernel_json(result, kernel));
  json["kernels"] = std::move(kernels);
  return json;
}

}  // namespace spmm::tools
