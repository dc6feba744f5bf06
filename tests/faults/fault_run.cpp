#include "faults/fault_run.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "cli/exit_codes.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace spmm::test {
namespace {

constexpr std::chrono::seconds kTimeout{60};  // takes a hundredth of a second: whatever reaches it hangs

/// The environment of the tests is the launcher's; the library is for the program alone.
ProcessResult run_with_library(const FaultScenario& scenario, const FaultFile& file) {
  ProcessOptions options{.env = scenario.env, .folder = {}, .timeout = kTimeout};
  options.env.emplace_back(kFaultStateVariable, file.path());
  std::vector<std::string> words = scenario.words;
  const auto program = std::find_if(words.begin(), words.end(), [](const auto& w) { return w.ends_with("/spmm-mpi"); });
  if (program != words.end()) {
    const std::vector<std::string> with_library = {"/usr/bin/env", "LD_PRELOAD=" SPMM_FAULT_SHIM};
    words.insert(program, with_library.begin(), with_library.end());
    return run_process(words, options);
  }
  options.env.emplace_back("LD_PRELOAD", SPMM_FAULT_SHIM);
  return run_process(scenario.words, options);
}

/// What is wrong with the end of a run, or "".
std::string judgement(const FaultScenario& scenario, const FaultPoint& point, const ProcessResult& result,
                      bool has_failed) {
  if (result.timed_out) return "hangs";
  if (result.signal != 0) return "ended by signal " + std::to_string(result.signal);
  const bool is_ok = result.exit_code == cli::kOk;
  if (!is_ok && !has_failed) return "fails without a fault";
  if (!is_ok && must_be_survived(point)) return "does not get over it";
  const auto& codes = scenario.exit_codes;
  if (!is_ok && std::find(codes.begin(), codes.end(), result.exit_code) == codes.end()) {
    return "exit code " + std::to_string(result.exit_code);
  }
  if (!is_ok && result.err.find("rror: ") == std::string::npos && result.exit_code != cli::kNegative) {
    return "no message";
  }
  if (!is_ok && result.err.empty()) return "no message";
  return scenario.judge(result);
}

/// Whether it ended well.
bool run_point(const FaultScenario& scenario, const FaultFile& file, const FaultPoint& point) {
  scenario.prepare();
  file.set(point);
  const ProcessResult result = run_with_library(scenario, file);
  const bool has_failed = file.state().num_failed.load() != 0;
  const std::string problem = judgement(scenario, point, result, has_failed);
  INFO(scenario.name << ", " << text_of(point) << ": exit code " << result.exit_code << "\n" << result.err);
  CHECK(problem == "");
  return problem.empty();
}

}  // namespace

FaultFile::FaultFile() : path_(folder_.file("state")) {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::ftruncate(fd, sizeof(FaultState)) == 0);
  void* const data = ::mmap(nullptr, sizeof(FaultState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  REQUIRE(data != MAP_FAILED);
  state_ = new (data) FaultState;
}

FaultFile::~FaultFile() {
  ::munmap(state_, sizeof(FaultState));
}

void FaultFile::set(const FaultPoint& point) const {
  state_->kind = point.kind;
  state_->mode = point.mode;
  state_->at = point.at;
  state_->error = point.error;
  for (auto& count : state_->num_calls) count.store(0);
  state_->num_failed.store(0);
}

void run_scenario(const FaultScenario& scenario) {
  const FaultFile file;
  if (const auto point = only_point()) {
    static_cast<void>(run_point(scenario, file, *point));
    return;
  }
  REQUIRE(run_point(scenario, file, {}));
  std::array<std::uint64_t, kNumFaultKinds> num_calls{};
  for (std::size_t k = 0; k < kNumFaultKinds; ++k) num_calls[k] = file.state().num_calls[k].load();
  std::uint64_t number = 0;
  std::uint64_t num_points = 0;
  std::uint64_t num_bad = 0;
  for (std::size_t k = 0; k < kNumFaultKinds; ++k) {
    const auto kind = static_cast<FaultKind>(k);
    if (std::find(scenario.left_out.begin(), scenario.left_out.end(), kind) != scenario.left_out.end()) continue;
    for (const auto& [mode, error] : modes_of(kind)) {
      if (scenario.only_mode && mode != *scenario.only_mode) continue;
      for (const std::uint64_t at : chosen_points(num_calls[k], scenario.quick)) {
        if (!is_in_share(number++)) continue;
        const FaultPoint point{.kind = kind, .mode = mode, .at = at, .error = error};
        num_bad += run_point(scenario, file, point) ? 0 : 1;
        ++num_points;
      }
    }
  }
  WARN(scenario.name << ": " << num_points << " of " << number << " points, " << num_bad << " bad ends");
}

}  // namespace spmm::test
