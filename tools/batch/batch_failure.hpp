// Failures of jobs: exit codes from exceptions, and which of them may pass.
#pragma once

#include <string>

namespace spmm::batch {

struct Failure {
  int exit_code = 0;
  std::string message;
};

/// The exception that is being handled, as `spmm` would end with it.
Failure failure_of_current_exception();

/// Whether the same job may succeed another time: not what its files or its command are to blame for.
bool may_pass(int exit_code);

/// Whether the worker that reported it can no longer be trusted: a fault on a device poisons the process's context.
bool breaks_worker(int exit_code);

}  // namespace spmm::batch
