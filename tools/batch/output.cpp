// Progress, failures, table and JSON report of spmm-batch.
#include "tools/batch/output.hpp"

#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "tools/common/json.hpp"

namespace spmm::batch {
namespace {

using tools::Json;

constexpr int kBatchSchema = 1;  // of the report
constexpr double kDrawEvery = 0.1;
constexpr double kFirstLog = 10;  // without a terminal: a line after 10 s, then every minute
constexpr double kLogEvery = 60;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char out[256];
  std::snprintf(out, sizeof out, pattern, values...);
  return out;
}

std::string rate(std::uint64_t bytes, double seconds) {
  return human_bytes(static_cast<std::uint64_t>(static_cast<double>(bytes) / std::max(seconds, 1e-9))) + "/s";
}

double per_second(std::uint64_t count, double seconds) {
  return static_cast<double>(count) / std::max(seconds, 1e-9);
}

std::string clock_text(double seconds) {
  const auto s = static_cast<unsigned long long>(seconds);
  if (s >= 3600) return format("%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
  return format("%llu:%02llu", s / 60, s % 60);
}

Json job_json(const JobRun& run, const std::vector<PoolWorker>& workers) {
  Json json = {{"line", run.job.line},           {"a", run.job.a},          {"b", run.job.b}, {"out", run.job.out},
               {"state", state_name(run.state)}, {"attempts", run.attempts}};
  json["transpose_a"] = run.job.options.transpose_a;
  json["transpose_b"] = run.job.options.transpose_b;
  if (run.job.options.rows != RowRange{}) json["rows"] = rows_text(run.job.options.rows);
  if (run.attempts == 0 && run.state != JobState::failed) return json;
  json["worker"] = run.worker < 0 ? "" : workers[static_cast<std::size_t>(run.worker)].name;
  json["backend"] = backend_name(run.result.backend);
  json["kernel"] = run.result.kernel;
  json["seconds"] = run.result.seconds;
  if (run.demand) {
    const bool on_gpu = run.result.backend == Backend::cuda;
    json["predicted_s"] = on_gpu ? run.demand->gpu_s : run.demand->cpu_s;
  }
  json["threads"] = run.result.num_threads;
  json["queue_s"] = std::max(0.0, run.started_s - run.added_s);
  json["in_bytes"] = run.result.in_bytes;
  json["out_bytes"] = run.result.out_bytes;
  json["pairs"] = run.result.pairs;
  json["saturated_elements"] = run.result.saturated_elements;
  json["exit_code"] = run.result.exit_code;
  if (!run.result.message.empty()) json["message"] = run.result.message;
  return json;
}

}  // namespace

std::string batch_line(const JobCounts& counts, double seconds, bool is_complete) {
  std::string line = text(counts.done + counts.done_before, '/', counts.total, is_complete ? "" : "+", " done, ",
                          counts.failed + counts.failed_before, " failed, ", counts.running, " running");
  if (counts.finished() == 0 || seconds <= 0) return line;
  const double speed = per_second(counts.finished(), seconds);
  line += format(", %.3g jobs/s, ", speed) + rate(counts.in_bytes + counts.out_bytes, seconds);
  if (is_complete) line += ", ETA " + clock_text(static_cast<double>(counts.waiting + counts.running) / speed);
  return line;
}

std::string summary_table(const JobCounts& counts, const std::vector<PoolWorker>& workers, double seconds) {
  std::string table =
      format("%-10s %9s %9s %12s %12s %12s\n", "worker", "done", "failed", "job seconds", "read", "written");
  for (const PoolWorker& worker : workers) {
    if (worker.num_starts == 0) continue;
    table +=
        format("%-10s %9llu %9llu %12.2f %12s %12s", worker.name.c_str(),
               static_cast<unsigned long long>(worker.num_done), static_cast<unsigned long long>(worker.num_failed),
               worker.busy_s, human_bytes(worker.in_bytes).c_str(), human_bytes(worker.out_bytes).c_str());
    table += worker.num_starts > 1 ? text("  started ", worker.num_starts, " times\n") : "\n";
  }
  table += text(counts.total, " jobs: ", counts.done, " done, ", counts.failed, " failed");
  if (counts.done_before > 0) table += text(", ", counts.done_before, " done before");
  if (counts.failed_before > 0) {
    table += text(", ", counts.failed_before, " failed before (--retry-failed runs them again)");
  }
  if (counts.waiting > 0) table += text(", ", counts.waiting, " not run (--resume goes on)");
  table += format("; %.2f s", seconds);
  if (counts.finished() == 0) return table + "\n";
  table += format(", %.4g products/s, ", per_second(counts.finished(), seconds)) +
           rate(counts.in_bytes + counts.out_bytes, seconds) + "\n";
  if (counts.saturated_jobs > 0) {
    table += text(cli::saturation_text(counts.saturated_elements), " in ", counts.saturated_jobs,
                  counts.saturated_jobs == 1 ? " job\n" : " jobs (--report says in which)\n");
  }
  return table;
}

BatchOutput::BatchOutput(const BatchOptions& options)
    : options_(options),
      draws_(!options.quiet && cli::wants_progress(options.progress)),
      next_tick_s_(draws_ ? kDrawEvery : kFirstLog) {
  char name[HOST_NAME_MAX + 1] = {};
  host_ = ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

double BatchOutput::now_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void BatchOutput::clear_line() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

void BatchOutput::note(const std::string& message) {
  clear_line();
  std::cerr << "spmm-batch: " << printable(message) << std::endl;
}

void BatchOutput::job_ended(const JobRun& run, const std::string& list_name) {
  if (run.state != JobState::failed) return;
  note(text(list_name, ':', run.job.line, ": failed (", run.result.exit_code, "): ", run.result.message));
}

void BatchOutput::tick(const JobCounts& counts, bool is_complete) {
  const double now = now_s();
  if (now < next_tick_s_ || options_.quiet) return;
  const std::string line = batch_line(counts, now, is_complete);
  if (draws_) {
    std::cerr << '\r' << line << "\033[K" << std::flush;
    drawn_ = true;
    next_tick_s_ = now + kDrawEvery;
  } else if (options_.progress != cli::ProgressMode::never) {
    std::cerr << "spmm-batch: " << line << std::endl;
    next_tick_s_ = now + kLogEvery;
  } else {
    next_tick_s_ = now + kLogEvery;
  }
}

void BatchOutput::finish(const JobTable& table, const std::vector<PoolWorker>& workers, int exit_code) {
  clear_line();
  const double seconds = now_s();
  if (!options_.report.empty()) write_report(table, workers, seconds, exit_code);
  if (options_.quiet) return;
  (options_.report == "-" ? std::cerr : std::cout) << summary_table(table.counts(), workers, seconds) << std::flush;
}

void BatchOutput::write_report(const JobTable& table, const std::vector<PoolWorker>& workers, double seconds,
                               int exit_code) const {
  const JobCounts& counts = table.counts();
  Json json = {{"schema", kBatchSchema},         {"version", version_string()},
               {"command", options_.command},    {"host", host_},
               {"list", options_.list},          {"shard", options_.shard.index + 1},
               {"shards", options_.shard.count}, {"exit_code", exit_code}};
  json["totals"] = {{"jobs", counts.total},
                    {"done", counts.done},
                    {"failed", counts.failed},
                    {"done_before", counts.done_before},
                    {"failed_before", counts.failed_before},
                    {"not_run", counts.waiting},
                    {"seconds", seconds},
                    {"products_per_s", per_second(counts.finished(), seconds)},
                    {"in_bytes", counts.in_bytes},
                    {"out_bytes", counts.out_bytes},
                    {"gb_per_s", per_second(counts.in_bytes + counts.out_bytes, seconds) * 1e-9},
                    {"pairs", counts.pairs},
                    {"saturated_elements", counts.saturated_elements},
                    {"saturated_jobs", counts.saturated_jobs}};
  json["workers"] = Json::array();
  for (const PoolWorker& worker : workers) {
    json["workers"].push_back({{"name", worker.name},
                               {"starts", worker.num_starts},
                               {"done", worker.num_done},
                               {"failed", worker.num_failed},
                               {"job_s", worker.busy_s},
                               {"in_bytes", worker.in_bytes},
                               {"out_bytes", worker.out_bytes}});
  }
  json["jobs"] = Json::array();
  for (const JobRun& run : table.runs()) json["jobs"].push_back(job_json(run, workers));
  tools::write_json(options_.report, json);
}

}  // namespace spmm::batch
