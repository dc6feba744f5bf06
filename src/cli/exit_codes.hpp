// Exit codes of every program of the project (documented in README.md and --help), and what exceptions mean to a user.
#pragma once

#include <string>
#include <string_view>

namespace spmm::cli {

enum ExitCode : int {
  kOk = 0,
  kNegative = 1,       ///< the answer is no: files differ, --verify failed
  kUsage = 2,          ///< command line
  kBadData = 65,       ///< an input breaks the format, A and B do not fit
  kNoInput = 66,       ///< an input cannot be opened
  kUnavailable = 69,   ///< backend or device
  kInternal = 70,      ///< a bug
  kMemory = 71,        ///< does not fit the memory or the limit
  kCannotCreate = 73,  ///< the output cannot be created
  kIoError = 74,       ///< reading or writing failed on the way
  kInterrupted = 75,   ///< stopped by a signal, safe to run again
  kSaturated = 76,     ///< elements of the result are at the limit (--on-saturation error)
};

struct Failure {
  int exit_code = 0;  ///< an ExitCode
  std::string message;
};

/// Of the exception that is being handled; out of memory if there is none for its message.
Failure failure_of_current_exception() noexcept;

/// The library names fields of its options in messages: `message` with "EngineOptions::..." and "ProductOptions::..."
/// replaced by what is typed for them.
std::string command_line_words(std::string_view message);

}  // namespace spmm::cli
