// Exit codes of every program of the project (documented in README.md and --help).
#pragma once

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

}  // namespace spmm::cli
