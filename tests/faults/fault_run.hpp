// Runs a program again and again, each time with another call that fails, and judges how it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "faults/fault_modes.hpp"
#include "support/process.hpp"

namespace spmm::test {

/// The file that the preloaded library shares, in a separate folder.
class FaultFile {
 public:
  FaultFile();
  ~FaultFile();
  FaultFile(const FaultFile&) = delete;
  FaultFile& operator=(const FaultFile&) = delete;

  [[nodiscard]] FaultState& state() const { return *state_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Starts to count anew.
  void set(const FaultPoint& point) const;

 private:
  TemporaryFolder folder_;
  std::string path_;
  FaultState* state_ = nullptr;
};

/// What is run, and what it must leave.
struct FaultScenario {
  std::string name;
  std::vector<std::string> words;  ///< program and arguments; the library is preloaded to it
  std::vector<std::pair<std::string, std::string>> env{};
  std::function<void()> prepare;  ///< puts the folder as it was before the first run
  /// What is wrong with what is left, or "". The result has an exit code; that, the message and must_be_survived() were
  /// judged before.
  std::function<std::string(const ProcessResult&)> judge;
  std::vector<int> exit_codes;           ///< in addition to 0, and to 1 if a program reports failed jobs
  std::uint64_t quick = 1;               ///< points of a kind and mode in a quick run
  std::vector<FaultKind> left_out{};     ///< kinds that are not for this program
  std::optional<FaultMode> only_mode{};  ///< the others are left out
};

/// Runs it without a fault, then with each point of the selection. Catch's checks fail with the point that ended badly.
/// SPMM_TEST_FAULT_POINT="KIND MODE NUMBER" runs that point alone and shows what the program says.
void run_scenario(const FaultScenario& scenario);

}  // namespace spmm::test
