// Warnings of variables that are nearly those of options.
#include "cli/options/variables.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/text.hpp"
#include "cli/options/did_you_mean.hpp"
#include "cli/program.hpp"

namespace spmm::cli {
namespace {

constexpr const char* kStart = "SPMM_";
constexpr std::size_t kLeastLetters = 3;  // shorter names are like too many others

/// What tests and scripts set begins like this.
bool is_of_tests(const std::string& name) {
  return name.starts_with("SPMM_TEST_") || name.starts_with("SPMM_REQUIRE_") || name.starts_with("SPMM_MPI_") ||
         name.starts_with("SPMM_BATCH_");
}

}  // namespace

std::vector<std::string> variable_warnings(const std::vector<std::string>& environment,
                                           const std::vector<std::string>& options) {
  std::vector<std::string> names;
  for (const std::string& option : options) {
    if (option.size() >= kLeastLetters) names.push_back(environment_name(option));
  }
  std::vector<std::string> lines;
  for (const std::string& variable : environment) {
    const std::string name = variable.substr(0, variable.find('='));
    if (!name.starts_with(kStart) || is_of_tests(name)) continue;
    const std::vector<std::string>& known = variable_names();
    const std::string end = name.substr(std::string(kStart).size());
    if (end.size() < kLeastLetters || std::find(known.begin(), known.end(), end) != known.end()) continue;
    std::string nearest;
    std::size_t least = end.size() <= 5 ? 2 : 3;  // fewer letters than that differ
    for (const std::string& one : names) {
      const std::size_t distance = edit_distance(name, one);
      if (distance >= least) continue;
      least = distance;
      nearest = one;
    }
    if (!nearest.empty()) {
      lines.push_back(text("the variable ", name, " is not known and has no effect, did you mean ", nearest, "?"));
    }
  }
  return lines;
}

const std::vector<std::string>& variable_names() {
  constexpr const char* kNames =
      "ALLOW_ZERO_BLOCKS ANY_ORDER BACKEND BANDWIDTH BASELINE BATCH BLOCK CALIBRATE CASE CHECK CHECKSUM "
      "COLS CPU_ISA CUDA DEFLATE DEVICE DEVICES DIFF DRY_RUN DTYPE DURABLE E2E FILTER_SECONDS FLOOR FORCE "
      "FROM GPUS GRACE GROUP HALT HELP IGNORE_ZERO_BLOCKS INNER IN_FLIGHT JOBLOG JOURNAL JSON K KEEP_ORDER "
      "KERNEL LAUNCHER LIKE LIST M MAX_DIFFERENCES MAX_SECONDS MAX_VALUE MEMORY_LIMIT MPI N NO_CLOBBER "
      "NO_JOURNAL NO_PARTNERS NO_PICTURE ON_OVERFLOW ON_SATURATION OPENBLAS ORDER PARTS PATTERN PLAN PRINT "
      "PROGRESS QUIET RANGE REPORT RESUME RETRIES RETRY_FAILED ROUND ROWS RUNS SANITIZE SCALE SEED SHAPE "
      "SHARD STRICT_SPACE SUITE SUITES THREADS THRESHOLD TILE TIMEOUT TO TOLERANCE TRACE TRANSPOSE "
      "TRANSPOSE_A TRANSPOSE_B TYPE VERBOSE VERIFY VERIFY_SEED VERSION WERROR WORK ZERO_BLOCKS";
  static const std::vector<std::string> kList = [] {
    std::istringstream names(kNames);
    return std::vector<std::string>{std::istream_iterator<std::string>(names), {}};
  }();
  return kList;
}

}  // namespace spmm::cli
