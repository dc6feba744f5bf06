// Progress, failures, summary and JSON report of spmm-batch.
#include "tools/batch/batch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "report/text.hpp"
#include "spmm/multiply.hpp"
#include "tools/common/json.hpp"
#include "tools/common/options.hpp"

namespace spmm::batch {
namespace {

using tools::format;
using tools::Json;

constexpr int kBatchSchema = 2;  // of the report
constexpr double kDrawEvery = 0.1;
constexpr double kFirstLog = 10;  // without a terminal: a line after 10 s, then every minute
constexpr double kLogEvery = 60;

double per_second(std::uint64_t count, double seconds) {
  return static_cast<double>(count) / std::max(seconds, 1e-9);
}

std::string rate(std::uint64_t bytes, double seconds) {
  return human_bytes(static_cast<std::uint64_t>(per_second(bytes, seconds))) + "/s";
}

/// Of the jobs done in this run.
struct Sums {
  std::uint64_t in_bytes = 0, out_bytes = 0, pairs = 0, saturated_elements = 0, saturated_jobs = 0;
};

std::string summary(const JobCounts& counts, const Sums& sums, double seconds) {
  std::string lines =
      text(counts.total(), " jobs: ", counts[JobState::done], " done, ", counts[JobState::failed], " failed");
  if (counts[JobState::done_before] > 0) lines += text(", ", counts[JobState::done_before], " done before");
  if (counts[JobState::waiting] > 0) lines += text(", ", counts[JobState::waiting], " not run (--resume goes on)");
  lines += format("; %.2f s", seconds);
  if (counts[JobState::done] > 0) {
    lines += format(", %.4g products/s, ", per_second(counts[JobState::done], seconds)) + rate(counts.bytes, seconds);
  }
  lines += '\n';
  if (sums.saturated_jobs > 0) {
    lines += text(cli::saturation_text(sums.saturated_elements), " in ", sums.saturated_jobs,
                  sums.saturated_jobs == 1 ? " job\n" : " jobs (--report says in which)\n");
  }
  return lines;
}

Json job_json(const Job& job, const JobRun& run) {
  constexpr std::array kStates = {"not run", "running", "done", "failed", "done before"};
  Json json = {{"line", job.line},
               {"a", job.a},
               {"b", job.b},
               {"out", job.out},
               {"state", kStates[static_cast<std::size_t>(run.state)]},
               {"attempts", run.attempts},
               {"transpose_a", job.product.transpose_a},
               {"transpose_b", job.product.transpose_b}};
  if (job.product.rows != RowRange{}) json["rows"] = rows_text(job.product.rows);
  if (run.state != JobState::done && run.state != JobState::failed) return json;
  const JobResult& result = run.result;
  json["worker"] = run.worker;
  json["backend"] = backend_name(result.backend);
  json["kernel"] = result.kernel;
  json["seconds"] = result.seconds;
  json["threads"] = result.num_threads;
  json["queue_s"] = run.started_s;
  json["in_bytes"] = result.in_bytes;
  json["out_bytes"] = result.out_bytes;
  json["pairs"] = result.pairs;
  json["saturated_elements"] = result.saturated_elements;
  json["exit_code"] = result.exit_code;
  if (!result.message.empty()) json["message"] = result.message;
  return json;
}

Json totals_json(const JobCounts& counts, const Sums& sums, double seconds) {
  return {{"jobs", counts.total()},
          {"done", counts[JobState::done]},
          {"failed", counts[JobState::failed]},
          {"done_before", counts[JobState::done_before]},
          {"not_run", counts[JobState::waiting]},
          {"seconds", seconds},
          {"products_per_s", per_second(counts[JobState::done], seconds)},
          {"in_bytes", sums.in_bytes},
          {"out_bytes", sums.out_bytes},
          {"gb_per_s", per_second(counts.bytes, seconds) * 1e-9},
          {"pairs", sums.pairs},
          {"saturated_elements", sums.saturated_elements},
          {"saturated_jobs", sums.saturated_jobs}};
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace

std::string batch_line(const JobCounts& counts, double seconds) {
  const std::uint64_t finished = counts[JobState::done] + counts[JobState::failed];
  std::string line = text(counts[JobState::done] + counts[JobState::done_before], '/', counts.total(), " done, ",
                          counts[JobState::failed], " failed, ", counts[JobState::running], " running");
  if (finished == 0 || seconds <= 0) return line;
  const double left_s =
      static_cast<double>(counts[JobState::waiting] + counts[JobState::running]) / per_second(finished, seconds);
  line += format(", %.3g jobs/s, ", per_second(finished, seconds)) + rate(counts.bytes, seconds);
  return line + ", ETA " + cli::clock_time(left_s);
}

BatchOutput::BatchOutput(const BatchOptions& options, const std::vector<JobRun>& runs)
    : options_(options),
      draws_(!options.quiet && cli::wants_progress(options.progress)),
      next_tick_s_(draws_ ? kDrawEvery : kFirstLog) {
  for (const JobRun& run : runs) ++counts_[run.state];
}

void BatchOutput::change(JobRun& run, JobState state) {
  --counts_[run.state];
  ++counts_[run.state = state];
  if (state == JobState::done) counts_.bytes += run.result.in_bytes + run.result.out_bytes;
}

double BatchOutput::now_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void BatchOutput::clear_line() {
  if (is_drawn_) std::cerr << "\r\033[K" << std::flush;
  is_drawn_ = false;
}

void BatchOutput::note(const std::string& message) {
  clear_line();
  std::cerr << "spmm-batch: " << printable(message) << std::endl;
}

void BatchOutput::tick() {
  const double now = now_s();
  if (now < next_tick_s_ || options_.quiet) return;
  next_tick_s_ = now + (draws_ ? kDrawEvery : kLogEvery);
  if (draws_) {
    std::cerr << '\r' << batch_line(counts_, now) << "\033[K" << std::flush;
    is_drawn_ = true;
  } else if (options_.progress != cli::ProgressMode::never) {
    std::cerr << "spmm-batch: " << batch_line(counts_, now) << std::endl;
  }
}

void BatchOutput::finish(const std::vector<Job>& jobs, const std::vector<JobRun>& runs, int exit_code) {
  clear_line();
  const double seconds = now_s();
  Sums sums;
  for (const JobRun& run : runs) {
    if (run.state != JobState::done) continue;
    sums.in_bytes += run.result.in_bytes;
    sums.out_bytes += run.result.out_bytes;
    sums.pairs += run.result.pairs;
    sums.saturated_elements += run.result.saturated_elements;
    sums.saturated_jobs += run.result.saturated_elements > 0 ? 1 : 0;
  }
  if (!options_.report.empty()) {
    Json json = {{"schema", kBatchSchema},
                 {"version", version_string()},
                 {"command", options_.command},
                 {"host", host_name()},
                 {"list", options_.list},
                 {"shard", options_.shard.index + 1},
                 {"shards", options_.shard.count},
                 {"exit_code", exit_code},
                 {"totals", totals_json(counts_, sums, seconds)},
                 {"jobs", Json::array()}};
    for (std::size_t j = 0; j < jobs.size(); ++j) json["jobs"].push_back(job_json(jobs[j], runs[j]));
    tools::write_json(options_.report, json);
  }
  if (options_.quiet) return;
  (options_.report == "-" ? std::cerr : std::cout) << summary(counts_, sums, seconds) << std::flush;
}

}  // namespace spmm::batch
