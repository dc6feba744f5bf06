#include "tools/batch/journal/failure.hpp"

#include "cli/exit_codes.hpp"

namespace spmm::batch {

bool may_pass(int exit_code) {
  return exit_code == cli::kUnavailable || exit_code == cli::kInternal || exit_code == cli::kMemory ||
         exit_code == cli::kIoError || exit_code == cli::kInterrupted;
}

bool is_of_machine(int exit_code) {
  return exit_code == cli::kIoError || exit_code == cli::kCannotCreate || exit_code == cli::kMemory;
}

bool breaks_worker(int exit_code) {
  return exit_code == cli::kUnavailable || exit_code == cli::kInternal;
}

}  // namespace spmm::batch
