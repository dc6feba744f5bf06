// Predictions before a product starts: how long it takes, in words, and when that needs --force.
#include "cli/run_length.hpp"

#include <array>
#include <cstdio>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "engine/backend_choice.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::cli {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kDay = 24 * kHour;

/// 0 if that cannot be predicted yet.
double predicted_seconds(const std::filesystem::path& a, const std::filesystem::path& b, const Options& options) {
  try {
    const MatrixHeader of_a = read_header(a);
    const MatrixHeader of_b = read_header(b);
    return of_a.n == of_b.n && of_a.m == of_b.m ? expected_seconds(of_a, of_b, options) : 0;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

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

void check_run_length(const std::string& program, const std::filesystem::path& a, const std::filesystem::path& b,
                      const Options& options, int num_ranks) {
  const double seconds = predicted_seconds(a, b, options) / num_ranks;
  if (seconds <= kMinute) return;
  const std::string words =
      text("the product is predicted to take about ", rough_time(seconds),
           num_ranks == 1 ? "" : text(" on ", num_ranks, " ranks"), " if the blocks are evenly spread");
  const std::string plan = num_ranks == 1 ? "--plan" : "spmm --plan";
  if (seconds > kDay && !options.force) {
    throw UsageError(program, words + ", more than a day",
                     "see " + plan + ", try another --kernel, or start it with --force");
  }
  warn(program, words + "; " + plan + " says why");
}

}  // namespace spmm::cli
