// Predictions before a product starts: its time, its result against the disk, and when it needs --force.
#include "cli/run_length.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "engine/backend_choice.hpp"
#include "io/files/paths.hpp"
#include "io/files/scratch_file.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kDay = 24 * kHour;

std::uint64_t result_bytes(const Plan& plan, std::uint32_t m) {
  const double bytes = plan.expected_output_blocks * static_cast<double>(output_record_bytes(m));
  return kHeaderBytes + static_cast<std::uint64_t>(std::min(bytes, 1e19));
}

/// Bytes of a scratch file in the folder of the output; none where that is in memory, and the file goes to TMPDIR.
std::uint64_t scratch_bytes_beside(const fs::path& out, const Plan& plan) {
  return io::is_in_memory(io::folder_of_output(out)) ? 0 : plan.scratch_bytes;
}

/// Nothing if the headers tell that the product is short and small, or if they cannot be read.
std::optional<Plan> expect_product(const fs::path& a, const fs::path& b, const fs::path& out, const Options& options,
                                   std::uint64_t free_bytes, int num_ranks) {
  try {
    const auto source_a = open_file_source(a);
    const auto source_b = open_file_source(b);
    if (source_a->header().n != source_b->header().n || source_a->header().m != source_b->header().m)
      return std::nullopt;
    for (const Expecting expecting : {Expecting::most, Expecting::pairs}) {
      const Plan plan = expected_plan(*source_a, *source_b, options, expecting);
      const bool is_short = plan.predicted_s > 0 && plan.predicted_s / num_ranks <= kMinute;
      const std::uint64_t bytes = result_bytes(plan, source_a->header().m) + scratch_bytes_beside(out, plan);
      if (is_short && bytes <= free_bytes) return std::nullopt;
    }
    return expected_plan(*source_a, *source_b, options, Expecting::sample);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::uint64_t> free_bytes_for(const fs::path& out) {
  try {
    struct stat there {};
    if (::stat(out.c_str(), &there) == 0 && S_ISCHR(there.st_mode)) return std::nullopt;
    struct statvfs info {};
    if (::statvfs(io::folder_of_output(out).c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
    return std::uint64_t{info.f_bavail} * info.f_frsize;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_space_for_file(const fs::path& out, std::uint64_t bytes) {
  const auto free = free_bytes_for(out);
  if (!free || bytes <= *free) return;
  throw OutputError(out.string(),
                    text("the file takes ", human_bytes(bytes), ", and ", io::folder_of_output(out).string(), " has ",
                         human_bytes(*free), " free"),
                    "free space there, or choose an output path on a larger disk");
}

std::string rough_time(double seconds) {
  struct TimeUnit {
    double seconds;
    const char* name;
  };
  TimeUnit unit{1, "s"};
  for (const TimeUnit larger : {TimeUnit{kMinute, "minutes"}, TimeUnit{kHour, "hours"}, TimeUnit{kDay, "days"}}) {
    if (seconds >= 2 * larger.seconds) unit = larger;
  }
  const double value = seconds / unit.seconds;
  std::array<char, 64> words{};
  std::snprintf(words.data(), words.size(), value < 10 ? "%.1f %s" : "%.0f %s", value, unit.name);
  return words.data();
}

void check_expectations(const std::string& program, const fs::path& a, const fs::path& b, const fs::path& out,
                        const Options& options, bool is_strict, int num_ranks) {
  const std::uint64_t free_bytes = free_bytes_for(out).value_or(~std::uint64_t{0});
  const std::optional<Plan> plan = expect_product(a, b, out, options, free_bytes, num_ranks);
  if (!plan) return;
  const std::uint64_t bytes = result_bytes(*plan, read_header(a).m);
  const std::uint64_t scratch_bytes = scratch_bytes_beside(out, *plan);
  if (bytes + scratch_bytes > free_bytes) {
    std::string problem = text("the result takes about ", human_bytes(bytes), " ", assumption(*plan), ", and ",
                               io::folder_of_output(out).string(), " has ", human_bytes(free_bytes), " free");
    if (scratch_bytes != 0) {
      problem += text("; a scratch file of ", human_bytes(scratch_bytes),
                      " comes on top, which a higher memory limit would not need");
    }
    if (is_strict) {
      throw OutputError(out.string(), problem, "free space there, or choose an output path on a larger disk");
    }
    warn(program, text(out.string(), ": ", problem, " (--strict-space refuses)"));
  }
  const double seconds = plan->predicted_s / num_ranks;
  if (seconds <= kMinute) return;
  const std::string words = text("the product is predicted to take about ", rough_time(seconds),
                                 num_ranks == 1 ? "" : text(" on ", num_ranks, " ranks"), " ", assumption(*plan));
  const std::string how = num_ranks == 1 ? "--plan" : "spmm --plan";
  if (seconds > kDay && !options.force) {
    throw UsageError(program, words + ", more than a day",
                     "see " + how + ", try another --kernel, or start it with --force");
  }
  warn(program, words + "; " + how + " says why");
}

}  // namespace spmm::cli
